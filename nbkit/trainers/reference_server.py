"""A reference model in a process of its own, between the sampler and the learner (SimpleGRPO).

The sampler uploads batches; the server adds the reference's log-probabilities; the learner gets
them, oldest first. So policy and reference need not share a device, and sampling goes on while the
learner learns. One process, plain HTTP on the loopback interface, tensors only. (The published
server hands out the *newest* batch first, so that old ones may wait for ever, and its client takes
every error for an empty queue.)
"""

import argparse
import io
import queue
import select
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nbkit.logprobs import next_token_logprobs
from nbkit.text.model_inputs import model_inputs
from nbkit.text.protocols import LanguageModel

Batch = dict[str, Tensor]
START_SECONDS = 120.0
MOST_WAITING = 64
MOST_BYTES = 2**30
NEEDED = ("ids", "attention")
FULL, EMPTY = 503, 204


def pack(batch: Batch) -> bytes:
    """Tensors to bytes."""
    buffer = io.BytesIO()
    torch.save({name: tensor.detach().cpu() for name, tensor in batch.items()}, buffer)
    return buffer.getvalue()


def unpack(data: bytes) -> Batch:
    """Bytes to tensors; nothing but tensors is read."""
    batch = torch.load(io.BytesIO(data), weights_only=True)
    if not isinstance(batch, dict) or not all(isinstance(x, Tensor) for x in batch.values()):
        raise ValueError("a batch must be a dictionary of tensors")
    return batch


@torch.inference_mode()
def reference_logprobs(model: LanguageModel, batch: Batch, temperature: float) -> Tensor:
    """Log-probability of each token given those before it, (B, L) -> (B, L-1), 0 in the padding."""
    device = next(model.parameters()).device
    ids, attention = batch["ids"].to(device), batch["attention"].to(device).bool()
    logits = model(**model_inputs(ids, attention)).logits
    counted = torch.nn.functional.pad(attention[:, 1:] & attention[:, :-1], (1, 0))
    return next_token_logprobs(logits, ids, temperature=temperature, mask=counted).cpu()


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"

    def do_POST(self) -> None:
        """``/upload``: take a batch and queue it."""
        size = int(self.headers.get("Content-Length", 0))
        if self.path != "/upload" or not 0 < size <= MOST_BYTES:
            self._answer(404 if self.path != "/upload" else 413)
            return
        try:
            batch = unpack(self.rfile.read(size))
            missing = [name for name in NEEDED if name not in batch]
            if missing or batch["ids"].shape != batch["attention"].shape:
                raise ValueError(f"a batch needs {NEEDED} of one shape; missing: {missing}")
        except Exception as error:  # whatever a broken body raises is the client's to read
            self._answer(400, f"{type(error).__name__}: {error}".encode())
            return
        try:
            self.server.waiting.put_nowait(batch)
        except queue.Full:
            self._answer(FULL)
            return
        self._answer(200)

    def do_GET(self) -> None:
        """``/get``: the oldest batch that is ready, with ``ref_logprobs``; 204 if none is."""
        if self.path != "/get":
            self._answer(404)
            return
        try:
            result = self.server.ready.get_nowait()
        except queue.Empty:
            self._answer(EMPTY)
            return
        if isinstance(result, Exception):
            self._answer(500, f"{type(result).__name__}: {result}".encode())
        else:
            self._answer(200, pack(result))

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: LanguageModel, temperature: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model, self.temperature = model, temperature
        self.waiting: queue.Queue[Batch] = queue.Queue(MOST_WAITING)
        self.ready: queue.Queue[Batch | Exception] = queue.Queue()
        threading.Thread(target=self._score, daemon=True).start()

    def _score(self) -> None:
        while True:
            batch = self.waiting.get()
            try:
                scored = reference_logprobs(self.model, batch, self.temperature)
                self.ready.put({**batch, "ref_logprobs": scored})
            except Exception as error:  # the learner asks, and is told
                self.ready.put(error)


class ReferenceServer:
    """Starts the server for a model's folder; use it in a ``with`` statement.

    Args:
        folder: of a causal language model of transformers, with its weights.
        temperature: at which the sampler samples.
        device: of the reference.

    Raises:
        RuntimeError: the server does not start, or reports an error.

    """

    def __init__(
        self, folder: Path | str, *, temperature: float = 1.0, device: str = "cpu"
    ) -> None:
        root = str(Path(__file__).resolve().parents[2])
        program = f"import sys; sys.path.insert(0, {root!r})"
        program += "\nfrom nbkit.trainers.reference_server import main\nmain()"
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", program, str(folder), str(temperature), device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        there, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        port = self.process.stdout.readline().strip() if there else b""
        if not port.isdigit():
            self.close()
            raise RuntimeError(
                f"the reference server does not start; is {folder} a model's folder?"
            )
        self.url = f"http://127.0.0.1:{int(port)}"
        # A proxy in the environment is not for the loopback interface.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def upload(self, batch: Batch) -> bool:
        """Queue a batch with ``ids`` and ``attention`` (B, L); False while the queue is full."""
        status, body = self._call("/upload", pack(batch))
        if status not in (200, FULL):
            raise RuntimeError(f"the reference server refused a batch: {body.decode()}")
        return status == 200

    def get(self, *, timeout_s: float = 60.0) -> Batch:
        """Wait for the oldest batch; it has ``ref_logprobs`` (B, L-1) beside what was uploaded.

        Raises:
            TimeoutError: none is ready in that time.

        """
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            status, body = self._call("/get", None)
            if status == 200:
                return unpack(body)
            if status != EMPTY:
                raise RuntimeError(f"the reference server failed: {body.decode()}")
            time.sleep(0.002)
        raise TimeoutError(f"no batch is ready after {timeout_s} s")

    def close(self) -> None:
        """End the process; it also ends when this one does."""
        try:
            self.process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()

    def _call(self, path: str, data: bytes | None) -> tuple[int, bytes]:
        try:
            with self._opener.open(self.url + path, data, timeout=60) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def __enter__(self) -> "ReferenceServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def main() -> None:
    """Serve until stdin closes, which it does when the parent ends."""
    from transformers import AutoModelForCausalLM

    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("temperature", type=float)
    parser.add_argument("device")
    given = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained(given.folder, dtype=torch.float32)
    server = _Server(model.to(given.device).eval().requires_grad_(False), given.temperature)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
