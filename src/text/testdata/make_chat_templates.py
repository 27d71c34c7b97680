#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders small chat templates with jinja2, set up as transformers sets it up.

usage: make_chat_templates.py > chat_templates.json        (needs jinja2 3.1)
"""
import json
import sys

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

CONVERSATIONS = [
    [],
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": "  Be <brief> & \"kind\".\n"}, {"role": "user", "content": "Grüße, 毕老师\n"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""},
     {"role": "user", "content": "{{ messages }} {% if %}"}, {"role": "tool", "content": "\t\u00a0x\u3000\x1f\n"}],
]

TEMPLATES = {
    "chatml": """{%- for message in messages %}{{- '<|im_start|>' + message.role + '
' + message.content + '<|im_end|>' + '
' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant
' }}{%- endif %}""",
    "branches": """{% for message in messages %}
    {% if message['role'] == 'system' %}
        [S] {{ message['content'] | trim }}
    {% elif message.role == "user" and not loop.last %}
        [U] {{ message.content }}
    {% elif message.role != 'assistant' or loop.first %}
        [?] {{ message["role"] ~ ':' ~ message.content|trim }}
    {% else %}
        [A]
    {% endif %}
{% endfor %}
{% if add_generation_prompt %}
[A]
{% endif %}
""",
    "loop": "{% for m in messages -%}\n {{ loop.index0 }}/{{ loop.index }} {{ loop.first }} {{ loop.last }}"
            " {{ loop.length }} {{ loop.revindex }} {{ loop.revindex0 }};\n{% else %}\nnothing{% endfor +%}\n!\n",
    "nested loops": "{% for a in messages %}{% for b in messages %}{{ loop.index }}{{ a.role == b.role }} {% endfor %}"
                    "{{ loop.index }}\n{% endfor %}",
    "scopes": "{% set x = 'out' %}{% for m in messages %}{{ x }}{% set x = m.content|trim %}{{ x }};{% endfor %}{{ x }}"
              "{% if true %}{% set x = 1 + 2 + 3 %}{% endif %}{{ x }}{% for m in x.y %}{% else %}{% set x = 8 %}"
              "{{ x }}{% endfor %}{{ x }}{% set messages = none %}{{ messages }}",
    "white space": "a  {%- if true %}  b  {%+ if true -%}  c  {%- endif +%}\n  d\n  {# gone #}\ne {# kept #} f\n"
                   "\t{%- endif %}\n\n  {{- 'g' -}}  \n h \n  {{ 'i' }}\n\n{% if true %}\r\nj\r{% endif %}\n\n",
    "escapes": r"""{{ 'a\n\t\\\'\"\x41\u00e9\U0001F600\101\q' ~ "it's" ~ 'one' " two" }}{{ 'a
b' }}{{ '}}%}#}' }}{{ 'x\
y' }}""",
    "logic": "{{ (not true) == false }}{{ not 1 == 2 }}{{ 1 == 1 == true }}{{ 1 == 1 == 2 }}{{ 'a' == 'a' != 'b' }}"
             "{{ none or '' or 'x' or 'y' }}{{ 'x' and 0 and 'y' }}{{ not not 'x' }}{{ none == false }}",
    "precedence": "{{ 'a' + 'b' ~ 1 + 'c' }}{{ ' a' + ' b '|trim + '.' }}{{ ('x' + ' ')|trim|trim }}"
                  "{{ 1 or 0 and 0 }}{{ (1 or 0) and 0 }}{{ 'a' == 'a' and 'b' or 'c' }}",
    "undefined": "{% for m in messages %}[{{ m.name }}{{ m['name'] }}{{ 'x' ~ m.name }}{{ m.name|trim }}"
                 "{% if m.name %}yes{% else %}no{% endif %}{{ m.name == none }}{{ m.name == m.other }}"
                 "{% for x in m.name %}never{% endfor %}]{% endfor %}{{ messages[0] == messages[99] }}",
    "index": "{% if messages %}{{ messages[0].role }}{{ messages[-1]['content'] }}{{ messages[0]['ro' + 'le'] }}"
             "{{ messages[0] == messages[-1] }}{% endif %}",
    "text": "just text, a { brace }, 100 %\n",
}


def main():
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    cases = []
    for name, source in TEMPLATES.items():
        outputs = []
        for messages in CONVERSATIONS:
            for prompt in (False, True):
                outputs.append(environment.from_string(source).render(
                    messages=messages, add_generation_prompt=prompt))
        cases.append({"name": name, "template": source, "outputs": outputs})
    json.dump({"made_with": f"jinja2 {jinja2.__version__}", "conversations": CONVERSATIONS,
               "cases": cases}, sys.stdout, indent=1)
    print()


main()
