"""``python -m opportune`` is the command line."""

from opportune.cli import main

if __name__ == "__main__":
    main()
