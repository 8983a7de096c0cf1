#!/usr/bin/env python3
"""Compares chat templates with transformers' apply_chat_template, offline.

usage: check-chat.py [--tester build/release/tests/unit/test_chat] [-m MODEL.gguf]... [--templates FOLDER] [--write FILE]

Renders conversations with the templates below (the published ones, written without their parts for tools), with the
models' own templates, and with each *.jinja of FOLDER, and lets the unit test compare text and token ids with Sluice's.
A template of FOLDER that Sluice does not know is counted, not failed: what counts is that no template is taken for
another. --write stores the cases with the tiny vocabulary of tests/golden/tokens, for the unit test itself.
Needs Python with transformers, tokenizers and gguf. The last line is 'N passed, N failed'."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import token_oracle as oracle  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from transformers.utils.chat_template_utils import _compile_jinja_template  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TURN = "(message['role'] == 'user') != (loop.index0 % 2 == 0)"
STRICT = "{% if " + TURN + " %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
IM = "'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'"
IM_PROMPT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
SPLIT_SYSTEM = ("{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = "
                "messages[0]['content'] %}{% else %}{% set loop_messages = messages %}ELSE{% endif %}")
L3 = "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>'"
L3_LOOP = ("{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = " + L3 + " %}"
           "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}")
L3_PROMPT = "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"
DS_ROLE = "{%- for message in messages %}{%- if message['role'] == 'system' %}SYSTEM{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}"
DS = ("{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace("
      "is_first=false, is_tool=false, is_output_first=true, system_prompt=''FIRST) %}" + DS_ROLE +
      "{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<｜User｜>' + message['content']}}"
      "{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is not none %}{%- if ns.is_tool %}{{'<｜tool▁outputs▁end｜>'"
      " + message['content'] + '<｜end▁of▁sentence｜>'}}{%- set ns.is_tool = false -%}{%- else %}ANSWER{%- endif %}{%- endif %}{%- endfor -%}"
      "{% if ns.is_tool %}{{'<｜tool▁outputs▁end｜>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'PROMPT'}}{% endif %}")
DS_LAST = "{% set ns.system_prompt = message['content'] %}"
DS_ALL = ("{%- if ns.is_first_sp %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}"
          "{%- else %}{% set ns.system_prompt = ns.system_prompt + '\\n\\n' + message['content'] %}{%- endif %}")
DS_PLAIN = "{{'<｜Assistant｜>' + message['content'] + '<｜end▁of▁sentence｜>'}}"
DS_THINK = ("{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}"
            "{{'<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>'}}")


def deepseek(first, system, answer, prompt):
    return DS.replace("FIRST", first).replace("SYSTEM", system).replace("ANSWER", answer).replace("PROMPT", prompt)


def chatml_default(text):
    return ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\n" + text +
            "<|im_end|>\\n' }}{% endif %}{{" + IM + "}}{% endfor %}" + IM_PROMPT)


def mistral_last(op, close, answer):
    return """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- for message in loop_messages %}
    {%- if (message["role"] == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("After the optional system message, conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif %}
{%- endfor %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "OPEN" + system_message + "\\n\\n" + message["content"] + "CLOSE" }}
        {%- else %}
            {{- "OPEN" + message["content"] + "CLOSE" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- ANSWER + eos_token }}
    {%- endif %}
{%- endfor %}
""".replace("OPEN", op).replace("CLOSE", close).replace("ANSWER", answer)


def mistral_old(answer):
    return ("{{ bos_token }}{% for message in messages %}" + STRICT + "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content']"
            " + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ " + answer + " }}{% else %}{{ raise_exception('Only user and "
            "assistant roles are supported!') }}{% endif %}{% endfor %}")


def mistral_v7(space):
    return ("{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST]_' + message['content'] + '[/INST]' }}"
            "{% elif message['role'] == 'system' %}{{ '[SYSTEM_PROMPT]_' + message['content'] + '[/SYSTEM_PROMPT]' }}{% elif "
            "message['role'] == 'assistant' %}{{ ANSWER }}{% else %}{{ raise_exception('Only user, system and assistant roles are "
            "supported!') }}{% endif %}{% endfor %}").replace("_' +", space + "' +").replace(
                "ANSWER", ("' ' + " if space else "") + "message['content'] + eos_token")


QWEN25 = """{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
QWEN3 = """{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {%- set reasoning_content = '' %}
        {%- if '</think>' in message.content %}
            {%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}
            {%- set reasoning_content = message.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
QWEN3_INSTRUCT = """{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role + '\\n' + content }}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
LLAMA31 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
GEMMA3 = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\\n'}}
{%- endif -%}
"""
GEMMA2 = ("{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
          "{% for message in messages %}" + STRICT + "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}"
          "{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}")
MISTRAL_V1 = (SPLIT_SYSTEM.replace("ELSE", "") + "{{ bos_token }}{% for message in loop_messages %}" + STRICT +
              "{% if message['role'] == 'user' %}{% if loop.first and system_message is defined %}{{ ' [INST] ' + system_message + '\\n\\n' + "
              "message['content'] + ' [/INST]' }}{% else %}{{ ' [INST] ' + message['content'] + ' [/INST]' }}{% endif %}{% elif "
              "message['role'] == 'assistant' %}{{ ' ' + message['content'] + eos_token }}{% else %}{{ raise_exception('no') }}{% endif %}{% endfor %}")
LLAMA2 = (SPLIT_SYSTEM.replace("ELSE", "{% set system_message = false %}") + "{% for message in loop_messages %}" + STRICT +
          "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + "
          "message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
          "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
          "{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}")

# name of the row -> (template, BOS, EOS)
TEMPLATES = {
    "chatml": ("{% for message in messages %}{{" + IM + "}}{% endfor %}" + IM_PROMPT, None, "<|im_end|>"),
    "smollm2": (chatml_default("You are a helpful AI assistant named SmolLM, trained by Hugging Face"), None, "<|im_end|>"),
    "qwen2": (chatml_default("You are a helpful assistant."), None, "<|im_end|>"),
    "qwen2.5": (QWEN25, None, "<|im_end|>"),
    "qwen3": (QWEN3, None, "<|im_end|>"),
    "qwen3-instruct": (QWEN3_INSTRUCT, None, "<|im_end|>"),
    "llama2": (LLAMA2, "<s>", "</s>"),
    "llama3": (L3_LOOP + "{% if add_generation_prompt %}" + L3_PROMPT + "{% endif %}", "<|begin_of_text|>", "<|eot_id|>"),
    "llama3-prompt": (L3_LOOP + L3_PROMPT, "<|begin_of_text|>", "<|eot_id|>"),
    "llama3.1": (LLAMA31, "<|begin_of_text|>", "<|eot_id|>"),
    "gemma": (GEMMA3, "<s>", "</s>"),
    "gemma2": (GEMMA2, "<s>", "</s>"),
    "mistral-v0.1": (mistral_old("message['content'] + eos_token + ' '"), "<s>", "</s>"),
    "mistral-v0.2": (mistral_old("message['content'] + eos_token"), "<s>", "</s>"),
    "mistral-v1": (MISTRAL_V1, "<s>", "</s>"),
    "mistral-v3": (mistral_last("[INST] ", "[/INST]", '" " + message["content"]|trim'), "<s>", "</s>"),
    "mistral-v3-untrimmed": (mistral_last("[INST] ", "[/INST]", '" " + message["content"]'), "<s>", "</s>"),
    "mistral-v3-tekken": (mistral_last("[INST]", "[/INST]", 'message["content"]'), "<s>", "</s>"),
    "mistral-v7": (mistral_v7(" "), "<s>", "</s>"),
    "mistral-v7-tekken": (mistral_v7(""), "<s>", "</s>"),
    "deepseek-v2": ("{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{{ bos_token }}"
                    "{% for message in messages %}{% if message['role'] == 'user' %}{{ 'User: ' + message['content'] + '\\n\\n' }}{% elif "
                    "message['role'] == 'assistant' %}{{ 'Assistant: ' + message['content'] + eos_token }}{% elif message['role'] == 'system' %}"
                    "{{ message['content'] + '\\n\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}",
                    "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "deepseek-v2.5": (deepseek("", DS_LAST, DS_PLAIN, "<｜Assistant｜>"), "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "deepseek-v3": (deepseek(", is_first_sp=true", DS_ALL, DS_PLAIN, "<｜Assistant｜>"), "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "deepseek-r1": (deepseek("", DS_LAST, DS_THINK, "<｜Assistant｜><think>\\n"), "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "deepseek-r1-open": (deepseek("", DS_LAST, DS_THINK, "<｜Assistant｜>"), "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "deepseek-r1-0528": (deepseek(", is_first_sp=true", DS_ALL, DS_THINK, "<｜Assistant｜>"), "<｜begin▁of▁sentence｜>",
                         "<｜end▁of▁sentence｜>"),
}


# Which conversations the committed file has: these for all, others where they matter.
SLIM = {1: "", 2: "", 5: "qwen3|deepseek|llama2", 6: "qwen3|deepseek", 7: "qwen2.5|qwen3$|llama3.1", 10: "deepseek|chatml|mistral-v7|llama3$"}


def chat(*turns):
    return [{"role": {"s": "system", "u": "user", "a": "assistant", "t": "tool"}[r], "content": c} for r, c in turns]


CHATS = [
    chat(("u", "Hello")),
    chat(("s", "You are terse."), ("u", "Hi"), ("a", "Hello!"), ("u", "What is 12 + 30?")),
    chat(("s", "  Spaces around.\n"), ("u", " \u00a0padded\n\n"), ("a", "  \x1f answer \n"), ("u", "  ")),
    chat(("u", "a"), ("a", "b")),
    chat(("s", "S"), ("u", "\n\n"), ("a", "")),
    chat(("u", "caf\u00e9 \u4e2d\u6587 \U0001f600"), ("a", "<think>\nfirst I think\n</think>\n\nthen I say"), ("u", "more"),
         ("a", "<think>\n\n\nagain\n\n</think>\n\n\nyes")),
    chat(("u", "x"), ("a", "half</think>rest</think> end"), ("u", "y"), ("a", "no thought")),
    chat(("u", "use it"), ("a", "calling"), ("t", "42"), ("t", "43"), ("a", "the answer is 42")),
    chat(("u", "<tool_response>1</tool_response>"), ("a", "only results")),
    chat(("s", "only a system message")),
    chat(("s", "one"), ("s", "two"), ("u", "u")),
    chat(("u", "u"), ("s", "late"), ("u", "v")),
    chat(("a", "answers first"), ("u", "u")),
    chat(("u", "one"), ("u", "two")),
]


def render(template, bos, eos, messages, generate):
    """The text, or None where the template refuses. Templates with a date get the one they name."""
    extra = {"date_string": "26 Jul 2024"} if "date_string" in template else {}
    tokens = {k: v for k, v in (("bos_token", bos), ("eos_token", eos)) if v}
    try:
        return _compile_jinja_template(template).render(messages=messages, tools=None, documents=None,
                                                        add_generation_prompt=generate, **tokens, **extra)
    except Exception:  # noqa: BLE001: a refusal, or a template that cannot take such messages
        return None


def make_cases(name, template, bos, eos, encode, slim=False):
    """All conversations, or for the committed file some of them, most without ids."""
    out = []
    for i, messages in enumerate(CHATS):
        for generate in (True, False):
            if slim and (i not in SLIM or not re.search(SLIM[i], name) or (not generate and i != 1)):
                continue
            text = render(template, bos, eos, messages, generate)
            case = {"chat": i, "generate": generate, "text": text}
            if text is not None and not (slim and (i != 1 or not generate)):
                case["ids"] = encode(text)
            out.append(case)
    return {"name": name, "template": template, "bos": bos, "eos": eos, "cases": out}


def run_tester(tester, groups, vocabulary):
    """(passed, failed, unknown templates) as the unit test counts them."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump({"chats": CHATS, "groups": groups}, f)
        f.flush()
        p = subprocess.run([tester], capture_output=True, text=True,
                           env={**os.environ, "SLUICE_CHAT_CASES": f.name, "SLUICE_CHAT_MODEL": vocabulary})
    sys.stdout.write("".join(l + "\n" for l in p.stdout.splitlines() if l.startswith(("FAIL", "unknown", "known"))))
    m = re.search(r"^chat: (\d+) passed, (\d+) failed, (\d+) unknown$", p.stdout, re.M)
    if not m:
        raise SystemExit(f"{tester}: {p.stdout[-2000:]}{p.stderr[-2000:]}")
    return [int(x) for x in m.groups()]


def golden_encoder():
    spec = json.loads((ROOT / "tests/golden/tokens/bpe.json").read_text())
    norm, pre, _ = oracle.pre_tokenizer("smollm")
    tok = Tokenizer.from_str(json.dumps(spec))
    tok.pre_tokenizer = pre
    return lambda s: tok.encode(s, add_special_tokens=False).ids


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--tester", default=str(ROOT / "build/release/tests/unit/test_chat"))
    ap.add_argument("-m", "--model", action="append", default=[])
    ap.add_argument("--templates")
    ap.add_argument("--write")
    a = ap.parse_args()
    encode = golden_encoder()
    groups = [make_cases(n, t, b, e, encode, bool(a.write)) for n, (t, b, e) in TEMPLATES.items()]
    if a.write:
        rows = ",\n".join(json.dumps(g, separators=(",", ":"), ensure_ascii=False) for g in groups)
        Path(a.write).write_text('{"chats":' + json.dumps(CHATS) + ',\n"groups":[\n' + rows + "]}\n")
        print(a.write, os.path.getsize(a.write), "bytes")
        return 0
    total = run_tester(a.tester, groups, "golden")
    if a.templates:
        groups = []
        for f in sorted(Path(a.templates).glob("*.jinja")):
            text = f.read_text()
            groups += [make_cases("?" + f.name, text, "<s>", "</s>", encode)]
        total = [x + y for x, y in zip(total, run_tester(a.tester, groups, "golden"))]
    for model in a.model:
        tok, _, fields = oracle.from_gguf(model)
        own = fields.get("tokenizer.chat_template")
        tokens = fields["tokenizer.ggml.tokens"]
        name = lambda k: tokens.contents(int(fields[k].contents())) if k in fields else None
        bos, eos = name("tokenizer.ggml.bos_token_id"), name("tokenizer.ggml.eos_token_id")
        enc = lambda s: tok.encode(s, add_special_tokens=False).ids
        # its own template; without one, the published one of its family
        groups = [make_cases("?own", own.contents(), bos, eos, enc)] if own else [make_cases("gemma", GEMMA3, bos, eos, enc)]
        print("model", model, "" if own else "(carries no template: Gemma 3's)")
        total = [x + y for x, y in zip(total, run_tester(a.tester, groups, model))]
    print(f"{total[2]} templates not known")
    print(f"{total[0]} passed, {total[1]} failed")
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main())
