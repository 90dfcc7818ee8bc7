"""Serve prepared rows with the Open Reward Standard."""

from .server import main

if __name__ == "__main__":
    main()
