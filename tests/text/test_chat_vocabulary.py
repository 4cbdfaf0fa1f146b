"""The vocabulary of a downloaded tokenizer: what the reward gets to read."""

from types import SimpleNamespace

import pytest

from nbkit.rewards import simple_grpo
from nbkit.text.chat_vocabulary import ChatVocabulary

CHAT = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
THINKS = CHAT.replace("'<|assistant|>' }}{% endif", "'<|assistant|><think>\n' }}{% endif")
TAGS = ("<think>", "</think>", "<answer>", "</answer>")


def tokenizer(template=CHAT, special=()):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    bare = Tokenizer(models.BPE(vocab=letters, merges=[]))
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bare.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(
        tokenizer_object=bare, eos_token="<|end|>", pad_token="<|pad|>", chat_template=template
    )
    made.add_special_tokens(
        {"additional_special_tokens": ["<|user|>", "<|assistant|>", "<|stop|>", *special]}
    )
    return made


def vocabulary(made, **settings):
    return ChatVocabulary(made, SimpleNamespace(eos_token_id=made.eos_token_id), **settings)


def ids_of(made, text):
    return made.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("special", [(), TAGS])
def test_the_reward_sees_the_tags(special):
    made = tokenizer(special=special)
    written = "<think>3 and 4 make 7.</think> <answer>7</answer>"
    text = vocabulary(made).decode(ids_of(made, "<|assistant|>" + written + "<|end|>more"))
    assert text == written
    assert simple_grpo.reward(text, "7").parts == {"correct": 1.0, "format": 1.0}


@pytest.mark.parametrize("special", [(), TAGS])
def test_a_tag_that_the_prompt_begins_is_part_of_the_turn(special):
    made = tokenizer(THINKS, special)
    words = vocabulary(made)
    assert words.begun == "<think>\n"
    assert made.decode(words.encode("What is 3 + 4?")).endswith("<think>\n")
    text = words.decode(ids_of(made, "They make 7.</think><answer>7</answer><|end|>"))
    assert simple_grpo.reward(text, "7").parts == {"correct": 1.0, "format": 1.0}
    unfinished = words.decode(ids_of(made, "so <answer>7</answer>"))
    assert simple_grpo.reward(unfinished, "7").parts == {"correct": 0.0, "format": 0.0}


def test_every_end_ends_and_padding_is_named():
    made = tokenizer()
    stop = made.convert_tokens_to_ids("<|stop|>")
    words = ChatVocabulary(made, SimpleNamespace(eos_token_id=[made.eos_token_id, stop]))
    assert words.eos_id == (made.eos_token_id, stop) and words.pad_id == made.pad_token_id
    assert words.begun == ""
    assert words.decode(ids_of(made, "7<|stop|>8")) == "7"
    made.pad_token = None
    assert vocabulary(made).pad_id == made.eos_token_id
    made.eos_token = None
    with pytest.raises(ValueError, match="no end of an answer"):
        ChatVocabulary(made, SimpleNamespace(eos_token_id=None))


def test_the_system_speaks_first_or_is_refused():
    made = tokenizer()
    chat = made.decode(vocabulary(made, system="Be brief.").encode("Hi"))
    assert chat == "<|system|>Be brief.<|end|><|user|>Hi<|end|><|assistant|>"
    assert made.decode(vocabulary(made).encode("Hi")) == "<|user|>Hi<|end|><|assistant|>"
    strict = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('none') }}{% endif %}"
    with pytest.raises(ValueError, match="refuses the chat"):
        vocabulary(tokenizer(strict + CHAT), system="Be brief.")
