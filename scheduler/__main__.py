"""``python -m scheduler`` is ``py-scheduler``."""

from scheduler.cli import main

if __name__ == "__main__":
    main(prog_name="py-scheduler")
