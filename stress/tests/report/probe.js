// Runs inside a copy of the page and tells its parent what a reader would run into.
addEventListener("load", () => {
  const root = document.documentElement;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const found = {
    width: innerWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    overflow: root.scrollWidth - root.clientWidth,
    // What was loaded, and what would be: what failed is not in the browser's list.
    resources: [
      ...new Set([
        ...performance.getEntriesByType("resource").map((entry) => entry.name),
        ...all("[src], [srcset], [data], link[href]").map((element) => element.src || element.href || element.outerHTML),
      ]),
    ],
  };

  found.maps = all("input[name=axes]").length;
  found.firstMap = all(".heat").findIndex(shown);
  found.wrongMaps = all("input[name=axes]").filter((input, n) => {
    input.click();
    const visible = all(".heat").filter(shown);
    return visible.length !== 1 || visible[0].id !== `heat-${n}`;
  }).length;

  found.details = all("details").length;
  for (const details of all("details")) details.open = true;
  for (const map of all(".heat")) map.style.display = "block";
  found.overflowOpened = root.scrollWidth - root.clientWidth;

  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const luminance = (colour) => {
    const [r, g, b] = colour.map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, alpha = 1] = channels(getComputedStyle(at).backgroundColor);
      if (alpha > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  found.texts = 0;
  found.lowest = 21;
  found.faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || ["SCRIPT", "STYLE"].includes(element.tagName) || !shown(element)) continue;
    const style = getComputedStyle(element);
    const ink = channels(element instanceof SVGElement ? style.fill : style.color).slice(0, 3);
    const [one, other] = [luminance(ink), luminance(ground(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    found.texts += 1;
    found.lowest = Math.min(found.lowest, contrast);
    if (contrast < 4.5) found.faint.push(`${contrast.toFixed(2)} ${walker.currentNode.data.trim().slice(0, 40)}`);
  }

  found.tables = all("table").length;
  found.nameless = [
    ...all("table:not(:has(caption))"),
    ...all("th:not([scope])"),
    ...all("svg:not([aria-label]):not([aria-hidden])"),
    ...all("[role=region]:not([aria-label])"),
    ...all("input").filter((input) => input.labels.length === 0),
    ...all("a").filter((link) => !link.textContent.trim() || !link.href),
  ].map((element) => element.outerHTML.slice(0, 80));
  const levels = all("h1, h2, h3").map((heading) => Number(heading.tagName[1]));
  found.headings = levels.every((level, n) => (n === 0 ? level === 1 : level <= levels[n - 1] + 1));
  found.language = root.lang;

  // The same text is as wide and as high with the same fonts only.
  const sample = document.createElement("span");
  sample.textContent = "walkfuzz 0123456789 ✗ ✓ fWil";
  document.body.append(sample);
  const size = (font) => {
    sample.style.font = font;
    const { width, height } = sample.getBoundingClientRect();
    return `${width.toFixed(2)}x${height.toFixed(2)}`;
  };
  found.fonts = `${size("15px/1.5 system-ui, sans-serif")} ${size("13px/1.5 ui-monospace, monospace")}`;
  sample.remove();

  parent.postMessage(JSON.stringify(found), "*");
});
