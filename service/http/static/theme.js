/** Light, dark, or as the system has it; for this page only, nothing is kept. */

const THEMES = [
  ["", "Auto", "Colours: as the system"],
  ["light", "Light", "Colours: light"],
  ["dark", "Dark", "Colours: dark"],
];

/** Lets the button go round the three. */
export function addTheme(button) {
  let chosen = 0;
  button.addEventListener("click", () => {
    chosen = (chosen + 1) % THEMES.length;
    const [theme, text, label] = THEMES[chosen];
    document.documentElement.dataset.theme = theme;
    button.textContent = text;
    button.setAttribute("aria-label", label);
  });
}
