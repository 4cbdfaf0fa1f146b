"""No value of job.yaml becomes a command: hostile values, the scripts run under bash.

Every text that job.yaml takes is filled with what shells act upon. The scripts run with a
stand-in for Python that writes down its environment and arguments; then no file `injected` may
exist, and each value must have arrived letter by letter.
"""

import contextlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from bookkit.jobs.job_file import JobError, load_job
from bookkit.jobs.render import render, render_kept, write
from bookkit.jobs.settings import label_of
from nbkit.cluster.slurm import Slurm

from .conftest import DRIVER, JOB, REPOSITORY, write_job

RECORD = """#!/bin/bash
{ printf '%s\\0' "$@"; } >"$RECORDS/arguments"
env -0 >"$RECORDS/environment"
mkdir -p "$NBKIT_RUN_FOLDER"
echo finished >"$NBKIT_RUN_FOLDER/state"
"""
SRUN = """#!/bin/bash
{ printf '%s\\0' "$@"; } >"$RECORDS/srun"
while [[ $1 == --* ]]; do shift; done
exec "$@"
"""
# Passes its options on to nobody and runs what stands behind the image.
APPTAINER = """#!/bin/bash
{ printf '%s\\0' "$@"; } >"$RECORDS/apptainer"
exec "$RECORDS/python3" "${@: -14}"
"""
SCONTROL = "#!/bin/bash\necho node7\n"
PIECES = [
    *("$(touch injected)", "`touch injected`", "; touch injected;", "&& touch injected", "'"),
    *('"', "\\", "$HOME", "${IFS}", "| touch injected", "> injected", "\n touch injected\n", "#"),
    *("$((a[$(touch injected)]))", "' ; touch injected ; '", '" ; touch injected ; "', "!!", "*"),
    *("~", "%s%n", "{a,b}", "<(touch injected)", "\t", "\x00", "é", "--", "-", "=", " ", "a"),
    *("{{ 7 * 7 }}", "{% raw %}", "\u2028", "\r", "[[", "x=1 touch injected"),
]
hostile = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join)


def run_script(folder: Path, launch: Path, script: str, variables: dict[str, str]) -> None:
    done = subprocess.run(
        ["/bin/bash", str(launch / script), str(folder / "run")],
        cwd=folder,
        env={"PATH": f"{folder / 'records'}:/usr/bin:/bin", "RECORDS": str(folder / "records")}
        | variables,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def records(folder: Path, name: str) -> list[str]:
    return (folder / "records" / name).read_bytes().decode().split("\0")[:-1]


def render_in(folder: Path, content: dict) -> Path | None:
    """Render with `folder` as the root of the repository; None if the file was refused."""
    (folder / "records").mkdir()
    programs = {"python": RECORD, "python3": RECORD, "srun": SRUN, "scontrol": SCONTROL}
    for name, text in (programs | {"apptainer": APPTAINER}).items():
        (folder / "records" / name).write_text(text)
        (folder / "records" / name).chmod(0o755)
    job = write_job(folder / "jobs" / "tiny", content)
    shutil.copytree(DRIVER, folder / DRIVER.relative_to(REPOSITORY))
    try:
        for file in (*render_kept(job, folder), *render(job, folder, to=job / "all", extras=True)):
            write(file)
    except JobError as error:
        # Refused with file and line, which is as good.
        assert "job.yaml:" in str(error)
        return None
    return job / "launch"


def not_injected(folder: Path) -> None:
    assert list(folder.rglob("injected")) == []
    assert not (REPOSITORY / "injected").exists()


pytestmark = pytest.mark.slow
ACCELERATE = {
    *("compute_environment", "distributed_type", "deepspeed_config", "num_machines"),
    *("num_processes", "use_cpu", "main_training_function", "mixed_precision"),
}
SLURM = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n", "SLURM_CPUS_PER_TASK": "1"}
QUICK = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@QUICK
@given(description=hostile, value=hostile, note=hostile, venv=hostile, model=hostile)
@example(
    "$(touch injected)", "it's $(touch injected)", "`touch injected`", "a b'; touch injected",
    "x/$(touch injected)",
)  # fmt: skip
def test_texts_arrive_letter_by_letter(description, value, note, venv, model):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        changes = {"description": description, "environment": {"VALUE": value}, "venv": venv}
        changes |= {"model": model, "data": model, "backend": "zero3"}
        content = JOB | changes | {"arguments": {"note": note}}
        launch = render_in(folder, content)
        if launch is not None:
            program = folder / venv / "bin" / "python"
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(RECORD)
            program.chmod(0o755)
            comments = (launch.parent / "all" / "accelerate.yaml").read_text()
            assert set(yaml.safe_load(comments)) == ACCELERATE
            for script in ("torchrun.sh", "deepspeed.sh", "slurm.sbatch"):
                run_script(folder, launch, script, SLURM if script == "slurm.sbatch" else {})
                environment = dict(entry.split("=", 1) for entry in records(folder, "environment"))
                assert environment["VALUE"] == value
                config = folder / records(folder, "arguments")[-1]
                told = yaml.safe_load(config.read_text())
                assert (told["note"], told["model"], told["data"]) == (note, model, model)
                # Anew: beside an attempt that has just ended, a launcher waits to see it still.
                shutil.rmtree(folder / "run")
        not_injected(folder)


@QUICK
@given(image=hostile, bind=hostile, runtime=st.sampled_from(["apptainer", "pyxis"]))
@example("a b'$(touch injected)", "/d:/d;touch injected", "apptainer")
@example("a b'$(touch injected)", "/d:/d;touch injected", "pyxis")
def test_containers_get_their_image_and_binds_letter_by_letter(image, bind, runtime):
    assume("," not in bind)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        container = {"image": image, "runtime": runtime, "binds": [bind]}
        launch = render_in(folder, JOB | {"container": container})
        if launch is not None:
            run_script(folder, launch, "slurm.sbatch", SLURM)
            if runtime == "apptainer":
                given_to = records(folder, "apptainer")
                assert bind in given_to and image in given_to
            else:
                given_to = records(folder, "srun")
                assert f"--container-image={image}" in given_to
                (mounts,) = (a for a in given_to if a.startswith("--container-mounts="))
                assert mounts.endswith(f",{bind}")
        not_injected(folder)


@QUICK
@given(
    field=st.sampled_from(["partition", "account", "qos", "constraint", "memory", "gres"]),
    value=hostile,
)
@example("partition", "main\n#SBATCH --wrap=x")
@example("account", "a\ntouch injected")
@example("gres", "gpu:1\n#SBATCH --wrap=x")
def test_slurm_s_words_are_plain_or_refused(field, value):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        launch = render_in(folder, JOB | {"slurm": {field: value}})
        if launch is not None:
            (folder / ".venv" / "bin").mkdir(parents=True)
            shutil.copy(folder / "records" / "python", folder / ".venv" / "bin" / "python")
            assert value.isascii() and not set(value) & set(" \t\r\n'\"`$\\;<>(){}[]*?~!#=%@^")
            run_script(folder, launch, "slurm.sbatch", SLURM | {"SLURM_CPUS_PER_TASK": "1"})
        not_injected(folder)


def directives(launch: Path) -> list[str]:
    """What Slurm reads: the lines before the first command that begin with its mark."""
    lines = (launch / "slurm.sbatch").read_text().split("\n")
    return [line for line in lines[: lines.index("set -euo pipefail")] if line[:7] == "#SBATCH"]


@QUICK
@given(exclude=hostile, mail=hostile, option=hostile, value=hostile)
@example("node1", "me@here.org", "nodelist", "a[1-2],$(touch injected)")
@example("n1\n#SBATCH --wrap=x", "me@here.org", "nodelist", "a")
@example("n1", "me\n#SBATCH --wrap=x", "nodelist", "a")
@example("n1", "me@here.org", "nodelist\n#SBATCH --wrap", "x")
@example("n1", "me@here.org", "comment", "a #SBATCH --wrap=x")
@example("n[1-2]", "me@here.org", "switches", "1@00:10")
def test_lists_addresses_and_free_options_stay_one_directive_each(exclude, mail, option, value):
    usual = {"exclude": "n1", "mail": {"to": "me@here.org"}, "options": {"nodelist": "a"}}
    # Each alone, so that one that is refused does not hide the others.
    for changes in ({"exclude": exclude}, {"mail": {"to": mail}}, {"options": {option: value}}):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            launch = render_in(folder, JOB | {"slurm": usual | changes})
            if launch is not None:
                told = directives(launch)
                assert len(told) == 12 and not any("wrap" in line for line in told)
                assert not any(set(line[8:]) & set(" \t\r\"'`$\\;<>(){}*?~!^") for line in told)
                program = folder / ".venv" / "bin" / "python"
                program.parent.mkdir(parents=True, exist_ok=True)
                program.write_text(RECORD)
                program.chmod(0o755)
                run_script(folder, launch, "slurm.sbatch", SLURM)
            not_injected(folder)


@pytest.mark.parametrize("name", ["wrap", "wra", "output", "export", "gpus", "array", "chdir"])
def test_an_option_that_the_scripts_set_is_refused(name):
    """Also what sbatch would take for its abbreviation."""
    with pytest.raises(ValidationError, match=f"options may not set {name}: "):
        Slurm(options={name: "x"})
    assert Slurm(options={"nice": 100, "spread-job": True}).lines == ["--nice=100", "--spread-job"]


@QUICK
@given(value=hostile, key=hostile)
@example("$(touch injected)", "note")
@example("'; touch injected; '", "description")
def test_settings_of_the_command_line_arrive_letter_by_letter(value, key):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "records").mkdir()
        job = write_job(folder / "jobs" / "tiny", JOB)
        for word in (f"note={json.dumps(value)}", f"description={json.dumps(value)}", f"{key}=1"):
            with contextlib.suppress(JobError):
                files = render(job, folder, settings=[word], to=folder / "launch")
                config = next(file for file in files if file.path.name == "config.yaml")
                if word == f"note={json.dumps(value)}":
                    assert yaml.safe_load(config.text)["note"] == value
                for file in files:
                    if file.path.suffix == ".sh":
                        subprocess.run(["bash", "-n"], input=file.text, text=True, check=True)
            assert "/" not in label_of([word]) and "\n" not in label_of([word])
        not_injected(folder)


@QUICK
@given(key=hostile, module=hostile, stage=hostile, argument=hostile)
def test_names_are_plain_or_refused(key, module, stage, argument):
    for text, changes in (
        (key, {"environment": {key: "x"}}),
        (module, {"modules": [module]}),
        (stage, {"stages": [{"name": stage}]}),
        (argument, {"arguments": {argument: 1}}),
        (key, {"variants": {key: {}}}),
        (key, {"time": key}),
        (key, {"trackers": [key]}),
    ):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            if render_in(folder, JOB | changes) is not None:
                assert set(text) <= set("a-"), f"{changes} was rendered"
            not_injected(folder)


INDEX = "BASH_VERSINFO[$(touch injected)0]"
# Of bash's manual, section "Shell Variables"; a clean bash gives the rest itself.
MANUAL = """
_ BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND BASH_ENV
BASH_COMPAT BASH_EXECUTION_STRING BASH_LINENO BASH_LOADABLES_PATH BASH_MONOSECONDS BASH_REMATCH
BASH_SOURCE BASH_SUBSHELL BASH_TRAPSIG BASH_VERSINFO BASH_VERSION BASH_XTRACEFD CDPATH CHILD_MAX
COLUMNS COMP_CWORD COMP_KEY COMP_LINE COMP_POINT COMP_TYPE COMP_WORDBREAKS COMP_WORDS COMPREPLY
COPROC DIRSTACK EMACS ENV EPOCHREALTIME EPOCHSECONDS EUID EXECIGNORE FCEDIT FIGNORE FUNCNAME
FUNCNEST GLOBIGNORE GLOBSORT GROUPS HISTCMD HISTCONTROL HISTFILE HISTFILESIZE HISTIGNORE HISTSIZE
HISTTIMEFORMAT HOME HOSTFILE HOSTNAME HOSTTYPE IFS IGNOREEOF INPUTRC INSIDE_EMACS LANG LC_ALL
LC_COLLATE LC_CTYPE LC_MESSAGES LC_NUMERIC LC_TIME LINENO LINES MACHTYPE MAIL MAILCHECK MAILPATH
MAPFILE OLDPWD OPTARG OPTERR OPTIND OSTYPE PATH PIPESTATUS POSIXLY_CORRECT PPID PROMPT_COMMAND
PROMPT_DIRTRIM PS0 PS1 PS2 PS3 PS4 PWD RANDOM READLINE_ARGUMENT READLINE_LINE READLINE_MARK
READLINE_POINT REPLY SECONDS SHELL SHELLOPTS SHLVL SRANDOM TIMEFORMAT TMOUT TMPDIR UID
histchars auto_resume
"""
COMPUTED = """
while read -r name; do
  ("export" "$name=$1") >/dev/null 2>&1
  if [[ -e injected ]]; then rm injected; echo "$name"; fi
done
"""


def bash(folder: Path, *words: str, text: str = "") -> list[str]:
    clean = {"PATH": "/usr/bin:/bin"}
    command = ["/bin/bash", "--norc", "--noprofile", *words]
    done = subprocess.run(
        command, cwd=folder, env=clean, input=text, capture_output=True, text=True, timeout=300
    )
    return done.stdout.split()


def test_no_variable_of_bash_computes_its_value(make_job, tmp_path):
    """Bash computes what is assigned to some of its variables, quoted or not."""
    names = sorted({*bash(tmp_path, "-c", "compgen -v"), *MANUAL.split()})
    assert len(names) > 100
    lines = "\n".join(names) + "\n"
    computed = set(bash(tmp_path, "-c", COMPUTED, "-", INDEX, text=lines))
    assert {"RANDOM", "SRANDOM", "HISTCMD", "OPTIND"} <= computed
    accepted = {}
    for number, name in enumerate(names):
        try:
            write_job(tmp_path / f"job{number}", JOB | {"environment": {name: INDEX}})
            load_job(tmp_path / f"job{number}" / "job.yaml")
        except JobError:
            continue
        accepted[name] = INDEX
    assert not computed & accepted.keys()
    assert 0 < len(accepted) < 40
    (tmp_path / "root").mkdir()
    launch = render_in(tmp_path / "root", JOB | {"environment": accepted, "venv": "venv"})
    assert launch is not None
    program = tmp_path / "root" / "venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(RECORD)
    program.chmod(0o755)
    run_script(tmp_path / "root", launch, "torchrun.sh", {})
    found = dict(entry.split("=", 1) for entry in records(tmp_path / "root", "environment"))
    assert {name: found[name] for name in accepted} == accepted
    not_injected(tmp_path)


def test_variables_that_bash_itself_would_run_are_refused(make_job):
    for name in ("BASH_ENV", "PS4", "PROMPT_COMMAND", "LD_PRELOAD", "PATH", "SLURM_JOB_ID"):
        with pytest.raises(JobError, match=f"may not set {name}"):
            make_job(environment={name: "$(touch injected)"})
