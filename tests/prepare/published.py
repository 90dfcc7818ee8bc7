"""Records in the forms in which data sets are published, with invented content."""

from __future__ import annotations

import json
from typing import Any

STEPS = [
    {"action": "weigh", "objects": ["agarose"], "parameters": ["1 g"]},
    {"action": "dissolve", "objects": ["agarose", "tae buffer"], "parameters": ["100 ml", "microwave"]},
]
KEY = "\n".join(f"Step {number}: {json.dumps(step)}" for number, step in enumerate(STEPS, 1))
SECTIONS = {
    "think": "Agarose dissolves in hot buffer only.",
    "key": KEY,
    "orc": "Step 1: Weigh 1 g of agarose.\nStep 2: Dissolve the agarose in 100 ml of TAE buffer in a microwave.",
    "note": "Hot agarose burns.",
}
ANSWER = "\n\n".join(f"<{name}>\n{text}\n</{name}>" for name, text in SECTIONS.items())

QUESTION = "How is a gel of 1 % agarose made?"
ASKED = f"{QUESTION} Please provide the experimental protocol to solve this problem."
LIBRARY = 'Please note that you can only use the following actions: "weigh", "dissolve", "pour".'
SYSTEM = "Answer in four sections."

TRAIN = {"exp_goal": QUESTION, **SECTIONS}
EVAL = {
    **{"id": 7, "question": QUESTION, "type": "Planning", "level": "level-1", **SECTIONS},
    "action": ["dissolve", "weigh"],
    "action_new": ["dissolve", "pour", "weigh"],
}
RL = {"system": SYSTEM, "query": f"{ASKED}\n{LIBRARY}", "response": ANSWER}
SFT = {"system": SYSTEM, "conversations": [{"from": "human", "value": ASKED}, {"from": "gpt", "value": ANSWER}]}
CHAT = {
    "messages": [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": f"{ASKED} {LIBRARY}"},
        {"role": "assistant", "content": ANSWER},
    ]
}
TEXT = {"text": "Experiment Name: Agarose gel\nProcedure: Weigh 1 g of agarose."}

PQA = {
    "question": "Melt the agarose in ____ ml of buffer.",
    "choices": ["50", "100", "150"],
    **{"answer": "100", "type": "parameter", "id": "PQA-1"},
}
ORD = {
    "question": "Sort the steps of 'Gel'.",
    "wrong_steps": ["Pour.", "Weigh.", "Melt."],
    "correct_steps": ["Weigh.", "Melt.", "Pour."],
    **{"type": "top", "id": "ORD-1"},
}
ERR = {
    "context": {"purpose": "Make a gel.", "prior_step": "Weigh.", "next_step": "Pour."},
    "corrupted_text": "Melt the agarose on ice.",
    "corrected_text": "Melt the agarose in a microwave.",
    **{"is_correct": False, "type": "operation", "error_description": "Ice does not melt it.", "id": "ERR-1"},
}
RIGHT: dict[str, Any] = {
    **ERR,
    "corrupted_text": None,
    "is_correct": True,
    "type": "correct",
    "error_description": None,
}
GEN = {
    "system_prompt": "You know gels.",
    "instruction": "List the steps.",
    "input": "How is a gel made?",
    "output": ["1. Weigh.", "2. Melt.", "3. Pour."],
    **{"type": "easy", "id": "GEN-1"},
}
PROGRAM = "def weigh(mass):\n    pass\n\nweigh(mass='1 g')\n"
PROTOCOL: dict[str, Any] = {
    "id": "12",
    "title": "Agarose gel",
    "original description": "A gel of 1 %.",
    "steps": "1. Weigh 1 g of agarose.\n2. Melt it.",
    "generated_pseudocode": "def other():\n    pass\n\nother()\n",
    "edited_pseudocode": PROGRAM,
}
WET: dict[str, Any] = {
    "idx": "WET-1",
    "question": "Design the making of a gel.",
    "action_pool": "<Weigh>(powder)\n<Melt>(powder, buffer)",
    "answer": 'weighed = <Weigh>(\n    powder="agarose"\n)\nmelted = <Melt>(\n    powder=weighed,\n    buffer="TAE"\n)',
    "discipline": "life",
}
OWN = {"goal": QUESTION, "steps": STEPS}
ROW = {"prompt": [{"role": "user", "content": "Right or wrong?"}], "task": "bioprobench.err", "reference": "False"}

LAB: dict[str, Any] = {
    "id": "b0a1",
    "question": "The gel stays liquid. What has to change?",
    "ideal": "Melt the agarose in a microwave.",
    "distractors": ["Weigh less agarose.", "Pour it sooner.", "Use less buffer."],
    "canary": "CANARY c4f9",
    "protocol": "1. Weigh 1 g of agarose.\n2. Melt it on ice.\n3. Pour it.",
    "subtask": "troubleshooting",
}

EVERY = (TRAIN, EVAL, RL, SFT, CHAT, TEXT, PQA, LAB, ORD, ERR, RIGHT, GEN, PROTOCOL, WET, OWN, ROW)

NESTED: dict[str, Any] = {
    "title": "Agarose gel",
    "abstract": "A gel of 1 %.",
    "input": "1. Agarose\n2. TAE buffer",
    "hierarchical_protocol": {
        "1": {"title": "Solution"},
        "1.1": {"title": "Agarose"},
        "1.1.1": "Weigh 1 g of agarose.",
        "1.1.2": "Melt it in 100 ml of buffer.",
        "2": {"title": "Gel"},
        "2.1": "Pour it.",
    },
}
"""As SciRecipe's `Protocol-Comprehension.json` has it."""

SECTIONED = {
    "exp_name": "Agarose gel",
    "abstract": "A gel of 1 %.",
    "materials": "1. Agarose",
    "equipments": "1. Microwave",
    "procedures": "A. Solution\n1. Weigh 1 g of agarose.",
    "notes": "None",
}
"""As SciRecipe's `Problem-Solving.jsonl` has it."""

CORPUS = {
    **{"id": "Protocol.io-1", "url": "https://example.org/1", "length": 9, "keywords": ["agarose", "gel"], **NESTED},
    "protocols": "1. Solution 2. Gel",
    "classification": {"primary_domain": "Methods", "confidence": 0.9},
}
"""As the paper prints BioProCorpus."""

STRUCTURED = (NESTED, SECTIONED, CORPUS)
