"""The command `fastsvm`, which is `python -m fastsvm` too: it says its version before it imports all else."""

import sys

import fastsvm


def main() -> int:
    """Run the command line with the words of the process, and return its exit code."""
    if sys.argv[1:] == ["--version"]:
        print(f"fastsvm {fastsvm.__version__}")
        return 0
    from fastsvm.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(main())
