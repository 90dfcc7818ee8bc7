/** Light, dark, or the system's theme; for this page only, not stored. */

const THEMES = [
  ["", "Theme: auto", "Theme: auto, follows the system"],
  ["light", "Theme: light", "Theme: light"],
  ["dark", "Theme: dark", "Theme: dark"],
];

/** Makes the button cycle through the themes. */
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
