"""The dashboard: a page of the node that shows a pool as it is, live, from the node alone.

The page is an empty shell for everybody; what it shows it asks for with the caller's API key. Parts
of it are rendered here, escaped, and put in place by a little JavaScript; charts are Vega-Lite.

``pages`` the shell and its files · ``serving`` the requests that fill it · ``view`` all parts of a
pool · ``figures`` what each number means · ``history`` counts over time, from the journal ·
``theory`` what blocking should be · ``heat`` prices as a matrix.
"""
