"""Tests handed out to processes, also after one of them has died.

xdist's scheduler by groups hands out the test that ended its process once more, so that one test
that fills the memory ends every process there is; and it gives a process that came later one test,
which waits for a second that never comes (pytest-xdist 3.8, `scheduler/loadscope.py`).
"""

from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController


class SurvivingScheduling(LoadGroupScheduling):
    """By groups; what a dead process was running has failed, the rest of its tests go on."""

    def remove_node(self, node: WorkerController) -> str | None:
        """Take back what a process was given.

        Returns:
            The test that it was running, if it had not finished; that one is not run again.
        """
        given = self.assigned_work.pop(node)
        undone = {s: [name for name, done in u.items() if not done] for s, u in given.items()}
        crashed = next((names[0] for names in undone.values() if names), None)
        for scope in reversed(list(given)):
            left = [name for name in undone[scope] if name != crashed]
            if left:
                self.workqueue[scope] = dict.fromkeys(left, False)
                self.workqueue.move_to_end(scope, last=False)
        for other in self.nodes:
            self._reschedule(other)
        return crashed

    def schedule(self) -> None:
        """Hand out tests, two groups to each process: the last test it has waits for the next."""
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)
