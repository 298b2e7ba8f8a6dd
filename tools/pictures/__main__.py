"""Make all pictures of the documentation, except those that other commands make.

`python -m tools.performance` draws `growth.svg`, and a test compares `snapshot.svg`.
"""

from tools.pictures import pages, run_map, watch

if __name__ == "__main__":
    watch.main()
    run_map.main()
    pages.main()
