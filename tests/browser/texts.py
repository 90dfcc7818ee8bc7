"""A response and its reference for tests that depend on single words: a restriction digest in four steps."""

from __future__ import annotations

REFERENCE = """\
Step 1: {"action": "mix", "objects": ["plasmid DNA", "CutSmart buffer"], "parameters": ["1 µg", "50 µl"]}
Step 2: {"action": "add", "objects": ["EcoRI"], "parameters": ["10 units"]}
Step 3: {"action": "incubate", "objects": ["reaction"], "parameters": ["37 °C", "1 h"]}
Step 4: {"action": "load", "objects": ["agarose gel"], "parameters": ["20 µl"]}"""

RESPONSE = """\
<think>
EcoRI cuts once, so a linear band is expected.
</think>
<key>
Step 1: {"action": "mix", "objects": ["plasmid DNA", "CutSmart buffer"], "parameters": ["1 µg", "50 µl"]}
Step 2: {"action": "incubate", "objects": ["reaction"], "parameters": ["37 °C", "2 h"]}
Step 3: {"action": "add", "objects": ["EcoRI"], "parameters": ["10 units"]}
Step 4: {"action": "load", "objects": ["agarose gel"], "parameters": ["20 µl"]}
</key>
<orc>
Step 1: Mix 1 µg of plasmid DNA with CutSmart buffer to 50 µl.
Step 2: Incubate the reaction at 37 °C for 2 h.
Step 3: Add 10 units of EcoRI.
Step 4: Load 20 µl on an agarose gel.
</orc>
<note>
Keep the enzyme on ice.
</note>"""
"""Steps 2 and 3 are swapped, and the incubation is longer than in the reference."""
