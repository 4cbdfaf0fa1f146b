"""Chats to token ids, with one BOS and with the answer where the prompt ends."""

from collections.abc import Sequence

from nbkit.data.encode import Ids
from nbkit.data.preferences import Message, Preference, RowError
from nbkit.text.protocols import Tokenizer

# The form of HH-RLHF for models without a chat template: the prompt ends with "Assistant:".
# (Line breaks stand inside expressions: templates drop one that follows a block.)
HH_TEMPLATE = (
    "{{ bos_token or '' }}{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ '\n\nHuman: ' + message['content'] }}"
    "{% elif message['role'] == 'assistant' %}"
    "{{ '\n\nAssistant: ' + message['content'] + eos_token }}"
    "{% else %}{{ message['content'] }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '\n\nAssistant:' }}{% endif %}"
)


class ChatEncoder:
    """A tokenizer of transformers with its chat template.

    The template is rendered to text and the text is tokenised *without* special tokens: a template
    that writes a BOS and a tokenizer that adds one make two, and a model has never seen that
    (FAULTS.md D15).

    Args:
        tokenizer: of transformers.
        template: instead of the tokenizer's own, such as ``HH_TEMPLATE``.

    Raises:
        ValueError: there is no template, or no EOS.

    """

    def __init__(self, tokenizer: Tokenizer, *, template: str | None = None) -> None:
        self.template = template or tokenizer.chat_template
        if self.template is None:
            raise ValueError("tokenizer: it has no chat template; give one, such as HH_TEMPLATE")
        if tokenizer.eos_token_id is None:
            raise ValueError("tokenizer: it has no eos_token, so no answer could ever end")
        self.tokenizer, self.eos_id = tokenizer, tokenizer.eos_token_id

    def prompt_ids(self, messages: Sequence[Message]) -> Ids:
        """Ids of a chat and of what announces the assistant's answer.

        Raises:
            RowError: the template refuses these roles, as many do a system's turn.
            ValueError: the ids begin with two BOS: the template writes two.

        """
        return self._ids(messages, announce=True)

    def answer_ids(self, messages: Sequence[Message], answer: str) -> Ids:
        """Ids of the answer that follows a chat, up to and including the first EOS behind it.

        A template that writes no EOS behind an answer gets one. What a template writes behind the
        EOS (a line break) is no part of the answer.

        Raises:
            RowError: the template refuses these roles.
            ValueError: the prompt is not the beginning of the whole chat, so that the answer has no
                ids of its own.

        """
        prompt = self.prompt_ids(messages)
        whole = self._ids([*messages, Message("assistant", answer)], announce=False)
        if whole[: len(prompt)] != prompt:
            part = next(
                (i for i, (a, b) in enumerate(zip(prompt, whole, strict=False)) if a != b),
                len(whole),
            )
            raise ValueError(
                f"template: the prompt's ids are no prefix of the whole chat's (they part at id "
                f"{part} of {len(prompt)}); what announces an answer must stand in the chat too"
            )
        tail, end = whole[len(prompt) :], self.eos_id
        return (*tail[: tail.index(end)], end) if end in tail else (*tail, end)

    def _ids(self, messages: Sequence[Message], *, announce: bool) -> Ids:
        from jinja2.exceptions import TemplateError

        try:
            text = self.tokenizer.apply_chat_template(
                [{"role": m.role, "content": m.content} for m in messages],
                chat_template=self.template,
                tokenize=False,
                add_generation_prompt=announce,
            )
        except TemplateError as error:
            roles = ", ".join(m.role for m in messages)
            raise RowError("refused by the template", f"{error} (roles: {roles})") from error
        ids = tuple(self.tokenizer.encode(text, add_special_tokens=False))
        bos = self.tokenizer.bos_token_id
        if bos is not None and bos != self.eos_id and ids[:2] == (bos, bos):
            raise ValueError(
                "template: the rendered chat begins with two BOS tokens; a model expects one"
            )
        return ids


def as_rows(preferences: Sequence[Preference]) -> list[dict[str, list[dict[str, str]]]]:
    """Return prompt, chosen and rejected as lists of messages, the form that TRL takes."""

    def turn(role: str, content: str) -> dict[str, str]:
        return {"role": role, "content": content}

    return [
        {
            "prompt": [turn(m.role, m.content) for m in p.prompt],
            "chosen": [turn("assistant", p.chosen)],
            "rejected": [turn("assistant", p.rejected)],
        }
        for p in preferences
    ]
