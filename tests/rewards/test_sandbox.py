"""The sandbox from outside: results, limits, survivors (D18), descriptors, layers, the pool."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from nbkit.rewards import CodeResult, _backends, _cgroup, _process, run_code
from nbkit.rewards.pool import SandboxPool
from nbkit.rewards.sandbox import Sandbox, SandboxUnavailableError

ROOT = Path(__file__).resolve().parents[2]
SOON = 100  # seconds: less than the programs here would sleep, much more than a slow machine takes
needs_sandbox = pytest.mark.usefixtures("sandboxed")


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def descendants() -> set[int]:
    return {p.pid for p in psutil.Process().children(recursive=True)}


@needs_sandbox
def test_output_input_and_exit_codes():
    result = run_code("name = input()\nprint('hello', name)", stdin="world\n")
    assert isinstance(result, CodeResult)
    assert (result.status, result.stdout, result.stderr) == ("ok", "hello world\n", "")
    assert result.seconds > 0
    assert run_code("import sys; sys.exit(3)").status == "error"
    failed = run_code("1 / 0")
    assert failed.status == "error"
    assert "ZeroDivisionError" in failed.stderr
    assert "_inside" not in failed.stderr
    assert run_code("def f(:").status == "error"
    assert run_code("print('ä€😀')").stdout == "ä€😀\n"
    assert run_code("if __name__ == '__main__': print('main')").stdout == "main\n"
    assert (
        run_code("import sys; print(len(sys.stdin.read()))", stdin="x" * 10**6).stdout
        == "1000000\n"
    )
    assert run_code("print(1)", stdin="x" * 10**6).status == "ok"  # input that nobody reads


@needs_sandbox
def test_standard_library_works():
    program = """
        import asyncio, collections, concurrent.futures, decimal, json, random, re, sqlite3
        import statistics, subprocess, tempfile, threading
        with tempfile.TemporaryFile() as f: f.write(b"x")
        with concurrent.futures.ThreadPoolExecutor(4) as p: print(sum(p.map(abs, range(-9, 0))))
        async def main(): await asyncio.sleep(0.001); return 7
        print(asyncio.run(main()), subprocess.run(["echo", "hi"], capture_output=True).stdout)
        print(open("/dev/null").read() == "", len(open("/dev/urandom", "rb").read(4)))
    """
    result = run_code(textwrap.dedent(program), timeout_s=10)
    assert result.stdout == "45\n7 b'hi\\n'\nTrue 4\n", result


@needs_sandbox
def test_layers_are_named():
    layers = run_code("").layers
    assert layers[0] in _backends.BACKENDS
    for name in (*_process.MINIMUM, "resource limits", "own session"):
        assert name in layers
    assert "unprotected" not in layers


@needs_sandbox
def test_same_program_same_output():
    """The hash seed is fixed: a reward does not depend on the order of a set of strings."""
    program = "print(list({'a', 'b', 'c', 'd', 'e', 'f'}), hash('x'))"
    assert run_code(program).stdout == run_code(program).stdout


@needs_sandbox
def test_scratch_folder_is_empty_each_time_and_private():
    first = run_code("import os; open('left', 'w').write('x'); print(os.listdir('.'))")
    assert first.stdout == "['left']\n"
    second = run_code("import os; print(os.listdir('.'), os.listdir('/tmp'))")
    assert second.stdout == "[] []\n"


@needs_sandbox
def test_output_is_cut():
    result = run_code("print('x' * 1000)", max_output=100)
    assert (result.status, result.stdout) == ("killed", "x" * 100)
    assert run_code("print('x' * 99)", max_output=100).status == "ok"
    result = run_code(
        "import sys; print('o' * 50); sys.stdout.flush(); sys.stderr.write('e' * 90)",
        max_output=100,
    )
    assert result.status == "killed"
    assert len(result.stdout) + len(result.stderr) == 100


@needs_sandbox
@pytest.mark.slow
def test_time_of_the_processor_and_of_the_clock():
    for program in ("while True: pass", "import time; time.sleep(300)"):
        result = run_code(program, timeout_s=0.5)
        assert result.status == "timeout"
        assert 0.5 <= result.seconds < SOON
    # many processes: the clock ends what the processor time of each would not
    program = "import os\nfor i in range(4): os.fork()\nwhile True: pass"
    assert run_code(program, timeout_s=0.5).status == "timeout"


@needs_sandbox
def test_output_before_the_time_limit_is_kept():
    result = run_code("import time; print('so far', flush=True)\ntime.sleep(300)", timeout_s=1)
    assert (result.status, result.stdout) == ("timeout", "so far\n")


@needs_sandbox
def test_sleeping_child_does_not_survive():
    """D18 (i): a child sleeps for 300 s and the program loops; nothing is alive afterwards."""
    before = descendants()
    program = "import subprocess; subprocess.Popen(['sleep', '300.25'])\nwhile True: pass"
    result = run_code(program, timeout_s=1)
    assert result.status == "timeout"
    assert result.seconds < SOON
    assert descendants() <= before
    sleeping = [
        p for p in psutil.process_iter(["cmdline"]) if "300.25" in (p.info["cmdline"] or [])
    ]
    assert sleeping == []


@needs_sandbox
@pytest.mark.slow
def test_two_sandboxes_may_each_have_their_processes():
    """D18 (iv): the limit counts the processes of one sandbox, not those of the user."""
    program = """
        import os, time
        for i in range(24):
            if os.fork() == 0:
                time.sleep(1.0); os._exit(0)
        print("all")
        time.sleep(1.2)
    """
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: run_code(textwrap.dedent(program), timeout_s=20), range(3)))
    assert [(r.status, r.stdout) for r in found] == [("ok", "all\n")] * 3


@needs_sandbox
@pytest.mark.slow
def test_a_fork_bomb_beside_does_not_starve_a_program():
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(run_code, bomb, timeout_s=2.5)
        time.sleep(0.3)
        result = run_code(
            "import os\nif os.fork(): os.wait(); print(sum(range(10**5)))", timeout_s=30
        )
        assert (result.status, result.stdout) == ("ok", "4999950000\n")
        assert beside.result().status == "timeout"


@needs_sandbox
@pytest.mark.slow
def test_nothing_leaks(tmp_path, monkeypatch):
    """No descriptor, process or folder is left, however a program ends or if it never starts."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # other tests make folders in /tmp
    run_code("")
    descriptors, processes = open_descriptors(), descendants()
    for program in (
        "print(1)",
        "1/0",
        "while True: pass",
        "print('x' * 10**6)",
        "x = 'a' * 10**10",
    ):
        run_code(program, timeout_s=0.3)
    Sandbox().close()
    assert open_descriptors() == descriptors
    assert descendants() <= processes
    assert list(tmp_path.iterdir()) == []


@needs_sandbox
@pytest.mark.slow
def test_children_end_with_a_killed_parent():
    program = textwrap.dedent("""
        import os, signal, threading, time
        from nbkit.rewards import run_code
        from nbkit.rewards.sandbox import Sandbox
        waiting = Sandbox()
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
        run_code("import subprocess; subprocess.run(['sleep', '300.5'])", timeout_s=60)
    """)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=300)
    assert done.returncode == -signal.SIGKILL
    end = time.monotonic() + SOON
    while any("300.5" in (p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])):
        assert time.monotonic() < end, "the program outlived the process that started it"
        time.sleep(0.05)


@needs_sandbox
def test_forked_owner_keeps_no_sandbox_alive():
    """A worker forked from the owner holds copies of its pipes, unless they are closed there."""
    with Sandbox() as sandbox:
        pid = os.fork()
        if pid == 0:
            os._exit(0 if not sandbox._open else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert run_code("print(1)", sandbox=sandbox).stdout == "1\n"


@needs_sandbox
def test_works_with_standard_descriptors_closed():
    program = textwrap.dedent("""
        import os, sys
        from nbkit.rewards import run_code
        keep = os.dup(1)
        os.closerange(0, 3)
        result = run_code("print(input())", stdin="x")
        os.write(keep, repr((result.status, result.stdout)).encode())
    """)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, timeout=300
    )
    assert done.stdout == b"('ok', 'x\\n')", done


def test_below_the_minimum_it_refuses(monkeypatch):
    monkeypatch.setattr(_process, "available", lambda: ("", "bubblewrap: not installed"))
    with pytest.raises(SandboxUnavailableError, match="bubblewrap: not installed"):
        run_code("print(1)")
    with pytest.raises(SandboxUnavailableError):
        SandboxPool()


def test_unprotected_says_so_and_still_limits(monkeypatch):
    monkeypatch.setattr(_process, "available", lambda: ("", "nothing"))
    before = descendants()
    monkeypatch.setenv("NBKIT_SECRET", "SECRET")

    def run(code: str, **options) -> CodeResult:
        return run_code(code, allow_unprotected=True, **options)

    result = run("import os; print(os.environ.get('NBKIT_SECRET'), os.getcwd())")
    assert result.layers[0] == "unprotected"
    assert result.stdout.startswith("None /tmp/nbkit-")
    assert not Path(result.stdout.split()[1]).exists()
    assert run("while True: pass", timeout_s=0.5).status == "timeout"
    assert run("x = 'a' * 10**10").status == "killed"
    assert run("while True: print('x' * 1000)").status == "killed"
    assert (
        run(
            "import subprocess\nsubprocess.Popen(['sleep', '300.75'], start_new_session=True)"
        ).status
        == "ok"
    )
    assert descendants() <= before


def test_a_layer_that_the_kernel_does_not_confirm_is_not_named(monkeypatch, sandboxed):
    """Without the filter a sandbox is below the minimum, whatever its command line says."""
    monkeypatch.setattr(_process, "layers_of", lambda *a, **k: (sandboxed, "pid namespace"))
    before = descendants()
    with pytest.raises(SandboxUnavailableError, match=r"without .*seccomp"):
        Sandbox(backend=sandboxed)
    assert descendants() <= before


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"code": 5}, "code"),
        ({"code": "", "timeout_s": 0}, "timeout_s"),
        ({"code": "", "timeout_s": float("nan")}, "timeout_s"),
        ({"code": "", "memory_mb": -1}, "memory_mb"),
        ({"code": "", "max_output": -1}, "max_output"),
        ({"code": "", "stdin": b""}, "stdin"),
    ],
)
def test_arguments_are_checked(arguments, name):
    with pytest.raises(ValueError, match=name):
        run_code(**arguments)


@needs_sandbox
@pytest.mark.slow
def test_pool_keeps_order_and_ends():
    processes, descriptors = descendants(), open_descriptors()
    with SandboxPool(2, spare=2) as pool:
        assert pool.run([f"print({i})" for i in range(8)])[5].stdout == "5\n"
        pairs = [("def f(x): return x + 1", f"assert f({i}) == {i + i % 2 + 1}") for i in range(4)]
        assert pool.score(pairs) == [1.0, 0.0, 1.0, 0.0]
        end = time.monotonic() + SOON
        while len(pool._waiting) < 2:  # refilled while idle
            assert time.monotonic() < end
            time.sleep(0.02)
        # a hanging program holds up its worker alone
        slow = pool.submit_run("while True: pass", timeout_s=1.5)
        assert [r.stdout for r in pool.run(["print(1)"] * 4)] == ["1\n"] * 4
        assert slow.result().status == "timeout"
    assert descendants() <= processes
    assert open_descriptors() == descriptors


@needs_sandbox
@pytest.mark.slow
def test_a_program_costs_little():
    """Twenty programs a second on two processors leave 0.1 s of processor time for each.

    Processor time, since the clock measures the other work of the machine too; the clock's figures
    are in benchmarks/results/rewards.json.
    """
    with SandboxPool(2, spare=0) as pool:
        before = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        results = pool.run([f"print(sum(range({i})))" for i in range(40)])
        after = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    assert {r.status for r in results} == {"ok"}
    spent = sum(u.ru_utime + u.ru_stime for u in after) - sum(
        u.ru_utime + u.ru_stime for u in before
    )
    assert spent / 40 < 0.1


@needs_sandbox
def test_pool_from_many_threads():
    with SandboxPool(2) as pool:
        results: list[str] = []
        threads = [
            threading.Thread(
                target=lambda i=i: results.extend(r.stdout for r in pool.run([f"print({i})"] * 2))
            )
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON)
        assert sorted(results) == sorted(f"{i}\n" for i in range(4) for _ in range(2))


@needs_sandbox
def test_pool_arguments():
    with pytest.raises(ValueError, match="workers"):
        SandboxPool(0)
    with pytest.raises(ValueError, match="spare"):
        SandboxPool(1, spare=-1)


@needs_sandbox
def test_control_groups_of_a_killed_owner_are_removed():
    if "control group" not in run_code("").layers:
        pytest.skip("this user may make no control groups")
    code = "import os, signal; from nbkit.rewards.sandbox import Sandbox; box = Sandbox(); "
    code += "print(os.getpid(), *(f for f, _ in box._group.folders.values()), flush=True); "
    for end, left in (("os.kill(os.getpid(), signal.SIGKILL)", True), ("box.close()", False)):
        done = subprocess.run(
            [sys.executable, "-c", code + end],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
        )
        folders = [Path(name) for name in done.stdout.split()[1:]]
        assert len(folders) == 2, done
        assert any(folder.exists() for folder in folders) == left
        deadline = time.monotonic() + SOON
        while any(folder.exists() for folder in folders):
            assert time.monotonic() < deadline
            time.sleep(0.1)
            _cgroup._sweep(_cgroup._find())
