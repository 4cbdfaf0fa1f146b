"""Every drawing by the name of its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bookkit.site.pictures import (
    async_timeline,
    bandit,
    beta_samples,
    chapters_basics,
    chapters_language,
    chapters_systems,
    fallbacks,
    gae_table,
    hoverer,
    mask_edges,
    reward_spectrum,
    rlhf_flow,
    rooms,
    token_tree,
    zero_shares,
)

PICTURES: dict[str, Callable[[], str]] = {
    "01_score_function": chapters_basics.score_function,
    "02_text_as_decisions": chapters_basics.text_as_decisions,
    "03_pytorch_traps": chapters_basics.pytorch_traps,
    "11_reinforce": chapters_basics.reinforce,
    "12_ppo": chapters_basics.ppo,
    "21_rlhf": chapters_language.rlhf,
    "22_dpo": chapters_language.dpo,
    "23_verifiers": chapters_language.verifiers,
    "24_grpo": chapters_language.grpo,
    "27_bug_clinic": chapters_language.bug_clinic,
    "31_sampling_engine": chapters_systems.sampling_engine,
    "32_data_parallel": chapters_systems.data_parallel,
    "33_sharding": chapters_systems.sharding,
    "34_deepspeed": chapters_systems.deepspeed,
    "35_asynchronous": chapters_systems.asynchronous,
    "36_orchestration": chapters_systems.orchestration,
    "41_manipulation": chapters_systems.manipulation,
    "42_agents": chapters_systems.agents,
    "async_timeline": async_timeline.async_timeline,
    "bandit_gradient": bandit.bandit_gradient,
    "beta_samples": beta_samples.beta_samples,
    "gae_table": gae_table.gae_table,
    "hoverer": hoverer.hoverer,
    "mask_edges": mask_edges.mask_edges,
    "ppo_clip": fallbacks.ppo_clip,
    "reward_spectrum": reward_spectrum.reward_spectrum,
    "rlhf_data_flow": rlhf_flow.rlhf_data_flow,
    "rooms": rooms.picture,
    "tiny_policy": fallbacks.tiny_policy,
    "token_tree": token_tree.token_tree,
    "zero_shares": zero_shares.zero_shares,
}
ARCHITECTURE = "architecture.md"


def write_pictures(folder: Path) -> list[str]:
    """Write every drawing and the table of rooms; return the names of those that changed."""
    changed = stale_pictures(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in changed:
        if name == ARCHITECTURE:
            page = folder.parent / ARCHITECTURE
            page.write_text(rooms.with_table(page.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            (folder / f"{name}.svg").write_text(PICTURES[name](), encoding="utf-8")
    return changed


def stale_pictures(folder: Path) -> list[str]:
    """Names of the drawings whose file is missing or differs from what is drawn now."""
    stale = []
    for name, draw in PICTURES.items():
        path = folder / f"{name}.svg"
        if not path.is_file() or path.read_text(encoding="utf-8") != draw():
            stale.append(name)
    page = folder.parent / ARCHITECTURE
    if page.is_file():
        text = page.read_text(encoding="utf-8")
        stale += [ARCHITECTURE] if rooms.with_table(text) != text else []
    return stale
