/** Example answers, each made from a valid one by a single fault that is typical of models. */

const MINIPREP = `Step 1: {"action": "resuspend", "objects": ["cell pellet"], "parameters": ["250 μl", "resuspension buffer"]}
Step 2: {"action": "add", "objects": ["lysis buffer"], "parameters": ["250 μl"]}
Step 3: {"action": "incubate", "objects": ["lysate"], "parameters": ["room temperature", "4 min"]}
Step 4: {"action": "add", "objects": ["neutralization buffer"], "parameters": ["350 μl"]}
Step 5: {"action": "centrifuge", "objects": ["lysate"], "parameters": ["12,000 × g", "10 min"]}
Step 6: {"action": "transfer", "objects": ["cleared supernatant"], "parameters": ["spin column"]}`;

const THINKING = "Open the cells with alkali, stop that before the chromosome comes along, and spin the debris away.";
const NOTE = "Mix by inverting the tube: a vortex shears the chromosome, and its pieces follow the plasmid.";

const KEY = [
  ["resuspend", ["cell pellet"], ["250 ul", "resuspension buffer"]],
  ["add", ["lysis buffer"], ["250 microliters"]],
  ["incubate", ["lysate"], ["room temperature", "5 minutes"]],
  ["add", ["neutralization buffer"], ["350 μl"]],
  ["centrifuge", ["cleared lysate"], ["12000 x g", "10 min"]],
  ["transfer", ["supernatant"], ["spin column"]],
];
const PROSE = [
  "Resuspend the cell pellet in 250 μl of resuspension buffer.",
  "Add 250 μl of lysis buffer and invert the tube a few times.",
  "Incubate the lysate at room temperature for 5 min.",
  "Add 350 μl of neutralization buffer and invert again.",
  "Centrifuge the cleared lysate at 12,000 × g for 10 min.",
  "Transfer the supernatant to a spin column.",
];

const stepLine = ([action, objects, parameters], index) => {
  const list = (texts) => `[${texts.map((text) => JSON.stringify(text)).join(", ")}]`;
  return `Step ${index + 1}: {"action": "${action}", "objects": ${list(objects)}, "parameters": ${list(parameters)}}`;
};

/** Returns a complete answer with these steps and their prose. */
function answer(key = KEY, prose = PROSE, thinking = THINKING, note = NOTE) {
  const lines = [
    "<think>",
    thinking,
    "</think>",
    "<key>",
    ...key.map(stepLine),
    "</key>",
    "<orc>",
    ...prose.map((text, index) => `Step ${index + 1}: ${text}`),
    "</orc>",
    "<note>",
    note,
    "</note>",
  ];
  return lines.join("\n");
}

const without = (list, index) => list.filter((_, place) => place !== index);
const replaced = (list, index, entry) => list.map((old, place) => (place === index ? entry : old));
const swapped = (list, index) => replaced(replaced(list, index, list[index + 1]), index + 1, list[index]);

const SLOW_SPIN = ["centrifuge", ["cleared lysate"], ["1,200 × g", "1 min"]];

const WORDY = PROSE.map(
  (text) =>
    `${text.slice(0, -1)}, taking enough time, because hurried handling is the most frequent reason why replicates differ, ` +
    "and keep the tube upright, labelled and within reach of the ice bucket until the next step.",
);

const STAINING = `Step 1: {"action": "cast", "objects": ["agarose gel"], "parameters": ["1 %", "TAE buffer"]}
Step 2: {"action": "mix", "objects": ["DNA sample", "loading dye"], "parameters": ["5:1"]}
Step 3: {"action": "load", "objects": ["DNA sample", "size ladder"], "parameters": ["10 μl"]}
Step 4: {"action": "run", "objects": ["agarose gel"], "parameters": ["100 V", "45 min"]}
Step 5: {"action": "stain", "objects": ["agarose gel"], "parameters": ["SYBR dye", "20 min"]}
Step 6: {"action": "image", "objects": ["agarose gel"], "parameters": ["302 nm"]}`;

const STAINED = answer(
  [
    ["mix", ["DNA sample", "loading dye"], ["6:1"]],
    ["load", ["sample", "ladder"], ["10 μl"]],
    ["run", ["gel"], ["100 V", "60 min"]],
    ["photograph", ["gel"], ["302 nm"]],
  ],
  [
    "Mix each DNA sample with loading dye, 6:1.",
    "Load 10 μl of every sample beside the ladder.",
    "Run the gel at 100 V for 60 min.",
    "Photograph the gel at 302 nm.",
  ],
  "The gel is ready, so start from the samples and keep the voltage moderate.",
  "Wear a face shield at the transilluminator.",
);

/** Settings that notice wrong quantities, and prose that says something else than its step. */
const LABORATORY = {
  parameter_similarity: "quantities",
  quantity_error_factor: 0.5,
  coverage: "words",
  max_added_numbers: 0,
  max_added_words: 2,
};
const RIGHT = KEY.map((step, index) => replaced(step, 2, index === 2 ? ["room temperature", "4 minutes"] : step[2]));
const PLAIN = replaced(
  replaced(PROSE, 1, "Add 250 μl of lysis buffer, and invert the tube."),
  2,
  "Incubate the lysate at room temperature for 4 min.",
);

/** Each has a title, the reason that the service returns for it, both texts, and settings that it needs, if any. */
export const EXAMPLES = [
  { title: "A good answer", reason: "ok", response: answer(), reference: MINIPREP },
  {
    title: "Two steps swapped",
    reason: "ok",
    response: answer(swapped(KEY, 2), swapped(PROSE, 2)),
    reference: MINIPREP,
  },
  {
    title: "One step left out",
    reason: "ok",
    response: answer(without(KEY, 2), without(PROSE, 2)),
    reference: MINIPREP,
  },
  {
    title: "Wrong amounts",
    reason: "ok",
    response: answer(
      replaced(replaced(KEY, 0, ["resuspend", ["cell pellet"], ["25 μl", "resuspension buffer"]]), 4, SLOW_SPIN),
      replaced(
        replaced(PROSE, 0, "Resuspend the cell pellet in 25 μl of resuspension buffer."),
        4,
        "Centrifuge the cleared lysate at 1,200 × g for 1 min.",
      ),
    ),
    reference: MINIPREP,
  },
  {
    title: "The same amount in another unit",
    reason: "ok",
    response: answer(
      replaced(KEY, 3, ["add", ["neutralization buffer"], ["0.35 ml"]]),
      replaced(PROSE, 3, "Add 0.35 ml of neutralization buffer and invert again."),
    ),
    reference: MINIPREP,
  },
  { title: "Far too wordy", reason: "ok", response: answer(KEY, WORDY), reference: MINIPREP },
  { title: "Other steps, other words", reason: "ok", response: STAINED, reference: STAINING },
  {
    title: "The prose forgets a word",
    reason: "low_coverage",
    response: answer(KEY, replaced(PROSE, 4, "Centrifuge the cleared lysate at full speed for 10 min.")),
    reference: MINIPREP,
  },
  {
    title: "The prose adds numbers",
    reason: "added_numbers",
    response: answer(KEY, replaced(PROSE, 2, "Incubate the lysate at room temperature for 5 min, then boil it at 95 °C for 3 h.")),
    reference: MINIPREP,
    config: { max_added_numbers: 0 },
  },
  {
    title: "A wrong dose",
    reason: "ok",
    response: answer(
      replaced(RIGHT, 0, ["resuspend", ["cell pellet"], ["25 ml", "resuspension buffer"]]),
      replaced(PLAIN, 0, "Resuspend the cell pellet in 25 ml of resuspension buffer."),
    ),
    reference: MINIPREP,
    config: LABORATORY,
  },
  {
    title: "The prose says not to",
    reason: "added_words",
    response: answer(RIGHT, replaced(PLAIN, 2, "Do not incubate the lysate at room temperature for 4 min.")),
    reference: MINIPREP,
    config: LABORATORY,
  },
  {
    title: "A step without prose",
    reason: "step_count",
    response: answer(KEY, PROSE.slice(0, -1)),
    reference: MINIPREP,
  },
  {
    title: "Broken JSON in a step",
    reason: "bad_step_json",
    response: answer().replace('"parameters": ["350 μl"]', '"parameters": ["350 μl"'),
    reference: MINIPREP,
  },
  {
    title: "Cut off before its end",
    reason: "missing_sections",
    response: answer().slice(0, answer().indexOf("Step 5: Centrifuge")),
    reference: MINIPREP,
  },
  {
    title: "<think> is in the prompt",
    reason: "think_not_opened",
    response: answer().slice("<think>\n".length),
    reference: MINIPREP,
  },
];

/** The examples of the initial group. */
export const GROUP = [0, 1, 2, 3, 5, 7, 13].map((index) => EXAMPLES[index].response);
