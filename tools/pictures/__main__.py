"""Make the pictures of the documentation: `make harness NAME=pictures`.

Two pictures are made elsewhere: `python -m tools.performance` draws `growth.svg`, and a test
compares `snapshot.svg`.
"""

from tools.pictures import pages, run_map, watch

if __name__ == "__main__":
    watch.main()
    run_map.main()
    pages.main()
