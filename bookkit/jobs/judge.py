"""Whether a training script takes the values of its job: asked where its imports are."""

import json
import subprocess
import sys
from pathlib import Path

from bookkit.jobs.job_yaml import JobError

# Runs where the training script's imports are: loads Config and lets pydantic judge the values; the
# words for the back-end are judged by nbkit.parallel, and what must fit together, as a batch and a
# number of devices, by the script's own function check(config, devices), if it has one. Both begin
# what they say with the name of the field.
VALIDATE = """
import importlib.util, json, sys
from dataclasses import asdict
from pathlib import Path
import yaml
from pydantic import TypeAdapter, ValidationError
from nbkit.parallel import ParallelConfig
spec = importlib.util.spec_from_file_location("train", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["train"] = module
spec.loader.exec_module(module)
failed = False
SPREAD = ("backend", "precision", "checkpointing", "compile")
for name, devices in json.loads(sys.argv[2]).items():
    try:
        config = TypeAdapter(module.Config).validate_python(yaml.safe_load(Path(name).read_text()))
        values = asdict(config)
        try:
            ParallelConfig(**{field: values[field] for field in SPREAD if field in values})
            getattr(module, "check", lambda config, devices: None)(config, devices)
        except ValueError as error:
            failed = True
            words = str(error).replace("\\n", " ")
            print(json.dumps([name, words.split()[0].rstrip(":"), words]))
    except ValidationError as error:
        failed = True
        for found in error.errors():
            allowed = found.get("ctx", {}).get("expected", "")
            says = f"the allowed values are {allowed}" if allowed else found["msg"]
            words = f"Config refuses {found['input']!r}: {says}"
            print(json.dumps([name, str(found["loc"][0]), words]))
sys.exit(3 if failed else 0)
"""


def judge(script: Path, root: Path, configs: dict[str, int]) -> list[list[str]]:
    """Let the ``Config`` of a training script judge files of values, and its ``check``, if any.

    Args:
        script: defines the class ``Config``; its function ``check(config, devices)`` raises a
            ValueError, beginning with a field's name, where values do not fit together.
        root: of the repository; it runs there.
        configs: files of values, each with the number of processes that its job has.

    Returns:
        for each value that it refuses: the file, the field, and what is wrong.

    Raises:
        JobError: the script cannot be loaded here.

    """
    done = subprocess.run(
        [sys.executable, "-c", VALIDATE, str(script), json.dumps(configs)],
        cwd=root,
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 3):
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise JobError(f"{script} cannot be loaded here: {last[0]}")
    # The script may print while it is imported; a finding is a line of JSON.
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["')]
