"""Renders our own templates with Transformers' Jinja2.

    make.py

Writes cases.json: {"values": the variables of pieces, "conversations": name -> the variables of
chats, "pieces": [{template, text or error}], "chats": name -> {template, texts: conversation ->
text, or null for an error}}. A piece tests one construct, or is a random expression (fuzz.py). The
clock is set to 26 Jul 2024, noon, UTC.
"""

import copy
import datetime
import json
import os
import random
import warnings

import fuzz

HERE = os.path.dirname(os.path.abspath(__file__))
NOW = 1721995200

PIECES = [
    # White space
    "a\n{% if true %}\n  b\n{% endif %}\nc\n",
    "  {% if true %}x{% endif %}\ny\n\n",
    "a {%- if true -%} b {%- endif -%} c",
    "a\n  {%+ if true %}b{% endif +%}\nc",
    "x\n\n{{- 1 -}}\n\ny",
    "{{ 1 }}\n{{ 2 }}\n",
    "a\n   {# note #}\nb",
    "a {#- note -#} b",
    "  {# one #}  {# two #}\nz",
    "{% raw %}\n{{ x }} {% if %}\n{% endraw %}\nq",
    "a  {%- raw -%}  {{ b }}  {%- endraw -%}  c",
    "\t{% set x = 1 %}\t{{ x }}",
    "a\r\nb\rc{{ 'd\r\ne' }}",
    "{% for i in [1, 2] %}\n  {{ i }}\n{% endfor %}\nend",
    "{% for i in [1, 2] -%}\n  {{ i }},\n{%- endfor %}",
    "{{ '{{' }}{{ '%}' }}{% if 1 %}{# {% if %} #}{% endif %}",
    "{",
    "{ {x} %} }} #}",
    "",
    "\n",
    "\n\n",
    # Literals and escapes
    r"{{ 'a\tb\n\\ \' \x41 \u00e9 \U0001F600 \101 \q' }}",
    '{{ "it\'s" \'two\' "parts" }}',
    "{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1.5e3 }} {{ 1e-7 }} {{ 1e16 }} {{ 2e0 }} "
    "{{ 100.0 }} {{ 0.1 + 0.2 }}",
    "{{ [1, 'a', none, true, 1.0, {'k': (1,)}, ()] }}",
    "{{ 'é\\x00\\x7f\\u200b' | list }}",
    "{{ \"a'b\" | list }}{{ ['it\\'s', '\"', 'both\\'\"'] }}",
    "{{ {} }}{{ {1: 2, 'a': [], none: 3, 1.0: 'x'} }}",
    "{{ True }}{{ true }}{{ None }}{{ none }}",
    "{{ 'wörld'[1] }}{{ 'wörld'[-1] }}{{ 'wörld' | length }}{{ 'wörld'[1:3] }}{{ 'wörld'[::-1] "
    "}}{{ '日本語'.find('語') }}",
    # Arithmetic
    "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 "
    "}} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 - 2 - 3 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ +3 }}",
    "{{ 'ab' * 3 }}{{ [1] * 2 }}{{ 2 * 'x' }}{{ true + 1 }}",
    "{{ 1 ~ 'a' ~ none ~ 2.0 ~ [1] }}",
    "{{ 1 + 2 ~ 3 }}",
    "{{ 1 / 0 }}",
    "{{ 1 // 0 }}",
    "{{ 1 % 0 }}",
    "{{ 'a' + 1 }}",
    "{{ 1 + 'a' }}",
    "{{ [1] + (2,) }}",
    "{{ 'a' - 'b' }}",
    # Comparison and truth
    "{{ 1 < 2 < 3 }}{{ 3 > 2 > 2 }}{{ 1 == 1.0 == true }}{{ 'a' < 'b' }}{{ [1, 2] < [1, 3] }}{{ "
    "(1,) == [1] }}{{ {'a': 1} == {'a': 1.0} }}",
    "{{ 1 < 'a' }}",
    "{{ none < 1 }}",
    "{{ 'ell' in t }}{{ 1 in l }}{{ 'k' in d }}{{ 'x' not in 'abc' }}{{ 2 in {2: 1} }}",
    "{{ 1 in 'a' }}",
    "{{ 1 in 2 }}",
    "{{ not a }}{{ not '' }}{{ a and u }}{{ u or 'z' }}{{ none or 0 }}{{ 1 if u else 2 }}{{ 3 if "
    "u }}{{ 'a' if e else 'b' if y else 'c' }}",
    # Undefined
    "{{ missing }}|{{ missing is defined }}|{{ d.nope is undefined }}|{{ missing | default('z') "
    "}}|{{ u | default('z') }}|{{ u | default('z', true) }}|{{ missing | length }}",
    "{{ missing.x }}",
    "{{ missing['x'] }}",
    "{{ d.nope.x }}",
    "{{ missing() }}",
    "{{ missing + 1 }}",
    "{{ missing ~ 'a' }}",
    "{% for x in missing %}{{ x }}{% else %}none{% endfor %}",
    "{{ missing == missing2 }}{{ missing == none }}",
    "{{ 'a' in missing }}",
    "{{ none.x }}",
    "{{ none['x'] }}",
    "{{ a.b }}{{ t.nope }}{{ l.nope }}{{ l[9] }}{{ d[1] }}",
    "{{ missing | tojson }}",
    "{{ missing | list }}{{ missing | join }}",
    # Attributes, items, methods
    "{{ d.k }}{{ d['k'] }}{{ d.items is callable }}{{ d['items'] }}{{ d.n.deep[1].z }}{{ l.0 "
    "}}{{ l[-2] }}",
    "{{ d.get('k') }}{{ d.get('q') }}{{ d.get('q', 5) }}{{ d.keys() | list }}{{ d.values() | "
    "list | length }}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{{ d.items() }}{{ d.keys() }}",
    "{{ d.update({}) }}",
    "{{ l.append(1) }}",
    "{{ d.pop('k') }}",
    "{{ l.index(3) }}{{ l.count(1) }}{{ (1, 2, 1).count(1) }}",
    "{{ w.strip() }}|{{ w.lstrip() }}|{{ w.rstrip() }}|{{ 'xxaxx'.strip('x') }}",
    "{{ 'a,b,,c'.split(',') }}{{ ' a  b '.split() }}{{ 'a b c'.split(' ', 1) }}{{ 'a b "
    "c'.rsplit(None, 1) }}{{ ''.split() }}{{ ''.split(',') }}",
    "{{ t.upper() }}{{ t.lower() }}{{ t.title() }}{{ 'éLAN vital'.capitalize() }}{{ "
    "'straße'.upper() }}",
    "{{ t.startswith('Hello') }}{{ t.endswith(('x', 'foo')) }}{{ t.find('o') }}{{ t.rfind('o') "
    "}}{{ t.count('o') }}{{ t.replace('o', '0') }}{{ t.replace('o', '0', 1) }}",
    "{{ 'a\nb\r\nc'.splitlines() }}{{ 'x=1=2'.partition('=') }}{{ 'x=1=2'.rpartition('=') }}{{ "
    "'-'.join(['a', 'b']) }}{{ '42'.zfill(5) }}{{ '-4'.zfill(4) }}{{ 'a'.center(4, '*') }}{{ "
    "'ab'.ljust(4) }}|{{ 'ab'.rjust(4) }}",
    "{{ '12'.isdigit() }}{{ 'a1'.isalnum() }}{{ 'é'.isalpha() }}{{ ' '.isspace() }}{{ "
    "'Ab'.isupper() }}{{ 'ab'.islower() }}{{ ''.isdigit() }}{{ '²'.isdigit() }}",
    "{{ '{} {1}'.format(1, 2) }}",
    "{{ '{0}-{x}'.format(1, x='y') }}",
    "{{ '%s %05.2f %x %r' % ('a', 3.14159, 255, 'q') }}",
    "{{ t.nope() }}",
    "{{ t.split(1) }}",
    "{{ 'abc'.index('z') }}",
    "{{ t() }}",
    # Slices
    "{{ l[1:3] }}{{ l[::-1] }}{{ l[::2] }}{{ l[-2:] }}{{ l[:-1] }}{{ l[10:] }}{{ t[:5] }}{{ "
    "t[::-2] }}{{ (1, 2, 3)[1:] }}",
    "{{ l[::0] }}",
    "{{ l['a':] }}",
    "{{ d[1:] }}",
    # Filters
    "{{ d | tojson }}{{ t | tojson }}{{ '<&>\"\\'/' | tojson }}",
    "{{ d | tojson(indent=2) }}",
    "{{ {'b': 1, 'a': [1, {}], 'é': 'ü'} | tojson(ensure_ascii=true, sort_keys=true, "
    "separators=(',', ':')) }}",
    "{{ [1.0, 1e20, 1e-5, true, none, [], {}] | tojson(indent=1) }}",
    "{{ {1: 2, none: 3, true: 4} | tojson }}",
    "{{ rows | map(attribute='role') | join(', ') }}{{ s | map('upper') | list }}{{ rows | "
    "selectattr('role', 'equalto', 'user') | list | length }}{{ rows | rejectattr('v') | list "
    "}}{{ nums | select('gt', 2) | list }}",
    "{{ rows | map(attribute='q', default='-') | join }}",
    "{{ s | sort }}{{ s | sort(reverse=true) }}{{ s | sort(case_sensitive=true) }}{{ rows | "
    "sort(attribute='role') | map(attribute='role') | list }}",
    "{{ ['b', 'B', 'a'] | unique | list }}{{ nums | min }}{{ nums | max }}{{ nums | sum }}{{ "
    "rows | map(attribute='v') | select | sum }}{{ [] | max }}",
    "{{ d | dictsort | first }}{{ {'b': 1, 'A': 0} | dictsort }}{{ {'b': 1, 'a': 2} | "
    "dictsort(by='value', reverse=true) }}",
    "{{ 'a b' | title }}{{ 'heLLo (wo-rld' | title }}{{ 'ab' | capitalize }}{{ ' x ' | trim "
    "}}|{{ 'xax' | trim('x') }}",
    "{{ '3.7' | int }}{{ '0x1f' | int(base=16) }}{{ 'q' | int(9) }}{{ ' 12 ' | int }}{{ 3.9 | "
    "int }}{{ '1_0' | int }}{{ '1e2' | float }}{{ 'q' | float }}{{ none | int }}",
    "{{ 2.5 | round }}{{ 3.5 | round }}{{ 2.567 | round(2) }}{{ 2.1 | round(method='ceil') }}{{ "
    "2.19 | round(1, 'floor') }}{{ 7 | round }}{{ -3 | abs }}",
    "{{ l | first }}{{ l | last }}{{ [] | first }}{{ 'ab' | last }}{{ l | reverse | list }}{{ "
    "'ab' | reverse }}{{ 'ab' | list }}{{ d | list }}{{ d | length }}{{ d | items | list | "
    "length }}",
    "{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, first=true) }}|{{ 'a\n\nb' | indent(1, "
    "blank=true) }}|{{ 'a\nb' | indent('> ') }}",
    "{{ nums | batch(3) | list }}{{ nums | batch(3, 0) | list }}{{ nums | slice(3) | list }}",
    "{{ 'one two' | wordcount }}{{ 'abcdefghij klm' | truncate(8) }}{{ 'abcdefghijklmnop' | "
    "truncate(9, true) }}{{ 'ab' | center(6) }}|{{ '%s-%s' | format(1, 'x') }}",
    "{{ '<a>' | escape }}{{ '<a>' | safe }}{{ '<' + ('b<' | safe) }}{{ ('<' | e) ~ '<' }}{{ "
    "[('<' | e)] }}",
    "{{ none | selectattr('x') | list }}{{ t | string | length }}{{ 1 | string ~ 2 }}",
    "{{ x | nope }}",
    "{{ 3 | join }}",
    "{{ 3 | list }}",
    "{{ 3 | length }}",
    "{{ d | attr('k') is undefined }}",
    # Tests
    "{{ 3 is odd }}{{ 4 is even }}{{ 9 is divisibleby 3 }}{{ 'a' is string }}{{ 1 is number }}{{ "
    "true is number }}{{ true is integer }}{{ 1 is integer }}{{ 1.0 is float }}{{ {} is mapping "
    "}}{{ [] is iterable }}{{ 1 is iterable }}{{ 'a' is sequence }}{{ d.items is callable }}{{ "
    "range is callable }}",
    "{{ none is none }}{{ 1 is not none }}{{ true is true }}{{ 1 is true }}{{ false is false "
    "}}{{ 'a' is lower }}{{ 'A' is upper }}{{ 2 is in [1, 2] }}{{ 2 is eq 2 }}{{ 2 is ne(2) }}{{ "
    "2 is gt 1 }}{{ 2 is le 1 }}{{ 'upper' is filter }}{{ 'odd' is test }}{{ none is sameas none "
    "}}{{ not 1 is defined }}",
    "{{ 1 is nope }}",
    # for
    "{% for i in [5, 6, 7] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ "
    "loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ "
    "loop.nextitem }};{% endfor %}",
    "{% for i in nums if i > 1 %}{{ loop.index }}/{{ loop.length }}:{{ i }} {% else %}none{% "
    "endfor %}",
    "{% for i in [] %}x{% else %}none{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [1] %}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% for i in range(3) %}{% for j in range(i) %}{{ loop.depth }}{{ i }}{{ j }}{{ loop.last }} "
    "{% endfor %}{% endfor %}",
    "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break "
    "%}{% endif %}{{ i }}{% endfor %}",
    "{% for i in 'abc' %}{{ loop.cycle('x', 'y') }}{{ loop.changed(i == 'a') }}{% endfor %}",
    "{% for i in d %}{{ i }} {% endfor %}{% for i in range(6, 0, -2) %}{{ i }}{% endfor %}",
    "{% for i in 3 %}{% endfor %}",
    "{% for i in none %}{% endfor %}",
    "{% set ns = namespace(go=true) %}{% for i in [1, 2, 3] if ns.go %}{{ i }}{% set ns.go = "
    "false %}{% endfor %}",
    "{% for m in [1, 2] %}{% set loop_ = loop %}{{ loop_.index }}{% endfor %}",
    # Scopes
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 9 %}{{ x }}{% endfor %}{{ x }}",
    "{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set ns = namespace(n=0, l=[]) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% set "
    "ns.l = ns.l + [i] %}{% endfor %}{{ ns.n }}{{ ns.l }}{{ ns['n'] }}{{ ns.q is defined }}",
    "{% set a, b = 1, (2, 3) %}{{ a }}{{ b }}",
    "{% set x %}  a{{ 1 }}\n{% endset %}[{{ x }}]",
    "{% set x | upper | trim %} ab {% endset %}[{{ x }}]",
    "{% with x = 1, y = x %}{{ x }}{{ y }}{% endwith %}{{ x }}",
    "{% filter upper | replace('B', 'x') %}a{{ 'b' }}{% endfilter %}",
    "{% set a.b = 1 %}",
    "{% set d.k = 1 %}",
    "{% generation %}{% set q = 1 %}g{{ q }}{% endgeneration %}{{ q is defined }}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{{ later }}{% endmacro %}{% set later = 2 %}{{ m() "
    "}}{% for x in [7] %}{{ m() }}{% endfor %}",
    # Macros
    "{% macro m(a, b='d', c=b) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ "
    "m(b=3, a=4) }}{{ m() }}{{ m(*[1, 2], **{'c': 5}) }}",
    "{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}",
    "{% macro m() %}x{% endmacro %}{{ m(1) }}",
    "{% macro m(a) %}x{% endmacro %}{{ m(b=1) }}",
    "{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}",
    "{% macro wrap(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call wrap('b') %}in{{ "
    "1 }}{% endcall %}",
    "{% macro each(l) %}{% for i in l %}{{ caller(i, loop.index) }}{% endfor %}{% endmacro %}{% "
    "call(x, n) each(['a', 'b']) %}{{ n }}{{ x }};{% endcall %}",
    "{% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(4) }}{{ "
    "r.name }}",
    "{% macro m() %}  x {% endmacro %}{{ m() | trim }}{{ m().strip() | length }}",
    # Functions
    "{{ range(3) | list }}{{ range(1, 4) }}{{ range(5)[1:3] }}{{ range(3)[-1] }}",
    "{{ range(1000000) }}",
    "{{ dict(a=1, b=2) }}{{ dict({'a': 1}, b=2) }}{{ dict([('a', 1)]) }}",
    "{% set j = joiner('|') %}{% for i in 'abc' %}{{ j() }}{{ i }}{% endfor %}",
    "{{ raise_exception('No: ' ~ a) }}",
    "{% if a == 3 %}{{ raise_exception('three') }}{% endif %}",
    "{{ strftime_now('%d %b %Y %H:%M %A') }}",
    "{{ messages[0].role if messages is defined else 'none' }}",
    # What Jinja2 refuses
    "{% if %}{% endif %}",
    "{% if 1 %}",
    "{% endif %}",
    "{% for x %}{% endfor %}",
    "{{ 1 +",
    "{{ }}",
    "{{ (1 }}",
    "{{ 1) }}",
    "{% nope %}",
    "{% set %}",
    "{% set 1 = 2 %}",
    "{{ a b }}",
    "{{ 'a }}",
    "{# never",
    "{% raw %}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{{ f(a=1, 2) }}",
    "{{ a is b is c }}",
    "{% do 1 %}",
    "{% break %}",
    "{{ a.'b' }}",
    "{{ a ? b : c }}",
    "{% call 1 %}{% endcall %}",
    "{{ 1 is defined if y }}",
    "{% set true = 1 %}",
    "{% for i in [1] %}{% endif %}{% endfor %}",
]

CHATS = {
    "chatml": "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "default_system": """{%- if messages and messages[0].role == 'system' -%}
    {%- set system = messages[0].content -%}{%- set rest = messages[1:] -%}
{%- else -%}
    {%- set system = 'Be kind.' -%}{%- set rest = messages -%}
{%- endif -%}
{{- bos_token ~ '[S]' ~ system ~ '[/S]' -}}
{%- for m in rest %}
    {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate user/assistant') }}{% endif %}
    {{- '[U]' + m.content | trim + '[/U]' if m.role == 'user' else m.content | trim + eos_token }}
{%- endfor %}
""",
    "tools": """{%- macro call(c) -%}
<call>{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}</call>
{%- endmacro -%}
{%- set ns = namespace(last=-1) -%}
{%- if tools %}<tools>
{%- for tool in tools %}
{{ tool | tojson(indent=4) }}
  {%- for name, p in tool.function.parameters.properties | dictsort %}
- {{ name }}: {{ p.type }}{{ ' (required)' if name in tool.function.parameters.required }}
  {%- endfor %}
{%- endfor %}
</tools>
{%- endif %}
{%- for m in messages[::-1] if m.role == 'user' and ns.last < 0 %}{% set ns.last = messages | length - loop.index0 %}{% endfor %}
{%- for m in messages %}
<{{ m.role }}>
{%- if m.content is string %}{{ m.content }}
{%- elif m.content is iterable and m.content is not none %}
    {%- for part in m.content %}{{ part.text if part.type == 'text' else '<' ~ part.type ~ '>' }}{% endfor %}
{%- endif %}
{%- for c in m.tool_calls | default([]) %}{{ call(c) }}{% if not loop.last %},{% endif %}{% endfor %}
{%- endfor %}
{{ ns.last }}{{ strftime_now('%d %b %Y') }}
{%- if add_generation_prompt %}<assistant>{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}{% endif %}""",
    "thoughts": """{%- for m in messages -%}
{%- set content = m.content if m.content is string else '' -%}
{%- set thought = m.reasoning_content | default('', true) -%}
{%- if '</think>' in content -%}
    {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') -%}
    {%- set content = content.split('</think>')[-1].lstrip('\\n') -%}
{%- endif -%}
{{- '<|' ~ m.role ~ '|>' -}}
{%- if m.role == 'assistant' and (loop.last or not loop.nextitem) -%}
<think>
{{ thought.strip() }}
</think>
{%- endif %}
{% generation %}
{{ content }}
{% endgeneration %}
{%- endfor -%}""",
}


def conversations():
    user, answer, system = (
        {"role": "user", "content": " Hello, wörld! <b> "},
        {"role": "assistant", "content": "Hi.\n"},
        {"role": "system", "content": "Be terse."},
    )
    tool = {
        "type": "function",
        "function": {
            "name": "look",
            "description": 'It\'s "here"',
            "parameters": {
                "type": "object",
                "properties": {"where": {"type": "string"}, "deep": {"type": "integer"}},
                "required": ["where"],
            },
        },
    }
    called = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"function": {"name": "look", "arguments": {"where": "Zürich", "deep": 1.5}}},
            {"function": {"name": "look", "arguments": {}}},
        ],
    }
    thought = {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nYes."}
    parts = {"role": "user", "content": [{"type": "text", "text": "See "}, {"type": "image"}]}
    words = {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "tools": None,
        "documents": None,
        "add_generation_prompt": False,
    }
    made = {
        "one": [user],
        "system": [system, user],
        "turns": [user, answer, user],
        "whole": [system, user, answer],
        "twice": [user, user],
        "none": [],
        "called": [user, called, {"role": "tool", "content": "{}"}],
        "thought": [user, thought, user, thought],
        "parts": [parts],
        "reasoning": [user, {"role": "assistant", "content": "A", "reasoning_content": " R\n"}],
    }
    result = {}
    for name, messages in made.items():
        result[name] = {**words, "messages": messages}
        result[name + " prompt"] = {
            **words,
            "messages": messages,
            "tools": [tool],
            "add_generation_prompt": True,
            "enable_thinking": False,
        }
    return result


def main():
    import transformers.utils.chat_template_utils as utils

    class Now(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(NOW, datetime.timezone.utc)

    utils.datetime = Now
    warnings.simplefilter("ignore")

    def render(template, context):
        try:
            return utils._compile_jinja_template(template).render(**copy.deepcopy(context))
        except Exception:
            return None

    rng = random.Random(20240726)
    pieces = []
    for template in PIECES + [fuzz.statement(rng) for _ in range(1000)]:
        text = render(template, fuzz.CONTEXT)
        if (
            text is None and len(pieces) >= len(PIECES) and rng.random() < 0.9
        ):  # most of what is made at random is an error
            continue
        if text is None or " at 0x" not in text:  # an address is another each time
            pieces.append({"template": template, "text": text})
    talks = conversations()
    chats = {
        name: {
            "template": template,
            "texts": {talk: render(template, context) for talk, context in talks.items()},
        }
        for name, template in CHATS.items()
    }
    with open(os.path.join(HERE, "cases.json"), "w", encoding="utf-8") as file:
        json.dump(
            {
                "now": NOW,
                "values": fuzz.CONTEXT,
                "conversations": talks,
                "pieces": pieces,
                "chats": chats,
            },
            file,
            ensure_ascii=False,
            indent=0,
        )
    print(
        len(pieces),
        "pieces,",
        len(chats) * len(talks),
        "chats,",
        sum(each["text"] is None for each in pieces)
        + sum(text is None for chat in chats.values() for text in chat["texts"].values()),
        "of them errors",
    )


if __name__ == "__main__":
    main()
