"""Make the pictures of the documentation: `make harness NAME=pictures`.

Two pictures are made by other commands: `growth.svg` by `python -m tools.performance`, and
`snapshot.svg` by `make generate`.
"""

from tools.pictures import pages, run_map, watch, work

if __name__ == "__main__":
    watch.main()
    work.main()
    run_map.main()
    pages.main()
