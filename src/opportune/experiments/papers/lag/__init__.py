"""The LAG paper (arXiv 2610.19038), reproduced: every table and figure beside ours.

``instances`` says what is run, ``units`` the pieces of work, ``resume`` keeps finished pieces,
``tables`` makes rows of them, ``causes`` says why a number differs, ``figures`` and ``page`` show
it, ``reproduction`` is the run itself. The CSV files are the numbers that the paper published.
"""
