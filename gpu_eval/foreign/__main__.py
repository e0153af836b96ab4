"""``python -m gpu_eval.foreign READ_FD WRITE_FD SETTINGS``: started by `gpu_eval.evaluator`, not by hand."""

from __future__ import annotations

from gpu_eval.child import child_arguments, harden, serve


def main() -> None:
    read_fd, write_fd, settings = child_arguments()
    harden(**settings.pop("harden"))
    from gpu_eval.foreign.host import Host

    serve(Host(settings), read_fd, write_fd)


if __name__ == "__main__":
    main()
