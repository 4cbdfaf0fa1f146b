"""A model that pip brings: checked, converted, found by name; on a tiny file of the true form."""

import json
import subprocess
import sys
import zipfile
from collections import namedtuple
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from nbkit.data import pretrained
from nbkit.data.gguf_model import convert
from nbkit.data.prefetch import hub_name, local_folder
from nbkit.data.pretrained import Source, fetch, fetched
from nbkit.errors import UserError
from nbkit.runs.sha256 import file_digest

MEMBER = "tiny_wheel/tiny.Q4_1.gguf"
WIDTH, HEADS, LAYERS, INNER = 64, 2, 1, 96
TOKENS = ["<|unk|>", "<|start|>", "<|end|>", *"0123456789+= abcdefghij", "12"]


def write_gguf(path: Path, *, pre: str = "smollm") -> dict[str, np.ndarray]:
    """A Llama of one layer in 4-bit blocks; the dequantised weights by their names in the file."""
    tokens = [token.replace(" ", "Ġ") for token in TOKENS]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_token_merges(["1 2"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    random = np.random.default_rng(0)
    shapes = {"token_embd": (len(tokens), WIDTH), "blk.0.ffn_gate": (INNER, WIDTH)}
    shapes |= {f"blk.0.attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_up": (INNER, WIDTH), "blk.0.ffn_down": (WIDTH, INNER)}
    kind, plain = gguf.GGMLQuantizationType.Q4_1, {}
    for name, shape in shapes.items():
        packed = gguf.quants.quantize(random.normal(size=shape).astype(np.float32), kind)
        plain[name] = gguf.quants.dequantize(packed, kind)
        writer.add_tensor(f"{name}.weight", packed, raw_dtype=kind)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return plain


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with the tiny file, known to the catalogue; an empty cache."""
    file, wheel = tmp_path / "tiny.Q4_1.gguf", tmp_path / "tiny_wheel-1.0-py3-none-any.whl"
    write_gguf(file)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(file, MEMBER)
    source = Source(
        "nbkit-no-such-wheel==1.0", MEMBER, file_digest(wheel), file_digest(file),
        "owner/tiny", "MIT", "a test; its weights are 4-bit", 1_000_000,
    )  # fmt: skip
    monkeypatch.setattr(pretrained, "MODELS", {"tiny": source})
    monkeypatch.setenv(pretrained.VARIABLE, str(tmp_path / "cache"))
    return wheel


def test_weights_and_tokenizer_are_those_of_the_file(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    plain = write_gguf(tmp_path / "tiny.gguf")
    convert(tmp_path / "tiny.gguf", tmp_path / "made")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "made")
    state = model.state_dict()
    assert model.dtype == torch.float32
    assert torch.equal(state["model.embed_tokens.weight"], torch.tensor(plain["token_embd"]))
    down = state["model.layers.0.mlp.down_proj.weight"]
    assert torch.equal(down, torch.tensor(plain["blk.0.ffn_down"]))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "made")
    # Digits stand alone although the file holds the merge "1 2".
    assert tokenizer.tokenize("12+3") == ["1", "2", "+", "3"]
    assert tokenizer.eos_token_id == model.config.eos_token_id == 2
    assert model.generation_config.eos_token_id == 2


def test_without_digits_the_merge_counts(tmp_path: Path) -> None:
    """The other kind that is known, so that the case above can fail."""
    from transformers import AutoTokenizer

    write_gguf(tmp_path / "tiny.gguf", pre="gpt-2")
    convert(tmp_path / "tiny.gguf", tmp_path / "made")
    pieces = AutoTokenizer.from_pretrained(tmp_path / "made").backend_tokenizer.pre_tokenizer
    assert [word for word, _ in pieces.pre_tokenize_str("12+3")] == ["12", "+", "3"]


def test_an_unknown_tokenizer_is_refused(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", pre="other")
    with pytest.raises(UserError, match="splits text as 'other'"):
        convert(tmp_path / "tiny.gguf", tmp_path / "made")


def test_a_model_is_fetched_once_and_found_by_its_name(wheel: Path) -> None:
    with pytest.raises(UserError, match="run `nbkit model fetch tiny` first"):
        fetched("tiny")
    with pytest.raises(ValueError, match="run `nbkit model fetch tiny` first"):
        hub_name("tiny")
    lines: list[str] = []
    folder = fetch("tiny", file=wheel, say=lines.append)
    assert folder == fetched("tiny") == local_folder("tiny", "model")
    assert hub_name("tiny") == (str(folder), "main")
    facts = json.loads((folder / pretrained.FACTS).read_text())
    assert facts["weights_sha256"] == pretrained.weights_sha256(folder)
    assert any("4-bit" in line for line in lines)
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]  # nothing is left behind
    assert fetch("tiny", say=lines.append) == folder and "lies in" in lines[-1]


def test_the_file_of_weights_will_do(wheel: Path) -> None:
    assert fetch("tiny", file=wheel.with_name("tiny.Q4_1.gguf"), say=lambda _: None).is_dir()


@pytest.mark.parametrize("name", ["tiny_wheel-1.0-py3-none-any.whl", "tiny.Q4_1.gguf"])
def test_a_damaged_file_is_not_used(wheel: Path, name: str) -> None:
    path = wheel.with_name(name)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"has the sha256 .* was expected"):
        fetch("tiny", file=path, say=lambda _: None)
    assert not (pretrained.cache_folder() / "tiny").exists()


def test_no_connection_is_one_sentence(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(UserError, match=r"could not be downloaded .* take owner/tiny from the hub"):
        fetch("tiny", say=lambda _: None)


def test_too_little_disk_is_said_before(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(pretrained.shutil, "disk_usage", lambda _: usage(10, 9, 1))
    with pytest.raises(UserError, match=r"has 0\.0 GB left and tiny needs 0\.0"):
        fetch("tiny", file=wheel, say=lambda _: None)


def test_an_unknown_name_lists_the_known_ones(wheel: Path) -> None:
    with pytest.raises(UserError, match=r"'huge' is none of the models .*: tiny"):
        fetch("huge")


def test_the_commands_list_and_fetch(wheel: Path) -> None:
    from typer.testing import CliRunner

    from bookkit.model_commands import app

    assert "not fetched" in CliRunner().invoke(app, ["list"]).output
    done = CliRunner().invoke(app, ["fetch", "tiny", "--file", str(wheel)])
    assert done.exit_code == 0, done.output
    assert str(pretrained.cache_folder()) in CliRunner().invoke(app, ["list"]).output


def test_listing_loads_no_torch() -> None:
    script = "import sys; import bookkit.model_commands; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
