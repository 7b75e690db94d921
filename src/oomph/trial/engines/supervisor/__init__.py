"""Runs one command, keeps it within its limits, and leaves none of its processes behind.

A program of its own, of the standard library alone, so that it starts in a few milliseconds and needs next to no
memory. It is told by its standard input what to run, and answers on its standard output how that ended;
`oomph.trial.engines.process` is the other end.

    whoever runs the trial --pipe--> guard --> watcher --> the command, in a session of its own, and all it starts

Guard and watcher are both "child subreapers" (Linux): a process of the command that loses its parent becomes their
child, whatever session it went to, so that none escapes. The watcher does the work. It ends the command when it is
told to, when a limit is passed, and when the pipe closes, which is what happens when whoever ran the trial dies. If
the watcher itself is killed, the guard ends what is left; if the guard is killed (Ray kills the children of a worker
that it ends), the watcher sees that and does so. Elsewhere than on Linux nothing is adopted: there `ps` tells who is
below whom, and a process that lost its parent on the way is not found.
"""
