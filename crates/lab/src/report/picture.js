// What a plot shows, as PNG (a data: address): the canvas with its title above and its legend below,
// at twice the size. The copy has the colours that the style sheet gives, as attributes, since the picture has
// no style sheet. Nothing is loaded: an image out of this very page is drawn onto a canvas.
const pictureOf = ({ make }) => {
  const STYLES = ["fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray", "font-size", "font-family", "font-weight", "text-anchor"];
  const [TITLE, LINE, SCALE] = [28, 20, 2];

  function copied(canvas) {
    const copy = canvas.cloneNode(true);
    const [from, to] = [canvas, copy].map((root) => [root, ...root.querySelectorAll("*")]);
    from.forEach((element, at) => {
      const style = getComputedStyle(element);
      for (const name of STYLES) to[at].setAttribute(name, style.getPropertyValue(name));
    });
    return copy;
  }

  // Names beside each other as long as they have room.
  function legend(names, width, top) {
    const parts = [];
    let [left, line] = [8, top];
    for (const { colour, strength, text } of names) {
      const wide = 24 + 7 * text.length;
      if (left + wide > width && left > 8) [left, line] = [8, line + LINE];
      if (colour) parts.push(make("rect", { x: left, y: line - 10, width: 12, height: 12, fill: colour, "fill-opacity": strength ?? 1 }));
      parts.push(make("text", { class: "own", x: left + (colour ? 18 : 0), y: line }, text));
      left += wide;
    }
    return [parts, line + LINE];
  }

  return async function picture(plot) {
    const { width, height } = plot.box;
    const body = getComputedStyle(document.body);
    const own = { fill: body.color, "font-family": body.fontFamily, "font-size": "12px" };
    const [names, bottom] = legend(plot.names(), width, TITLE + height + LINE);
    const inner = copied(plot.canvas);
    for (const [name, value] of Object.entries({ x: 0, y: TITLE, width, height })) inner.setAttribute(name, value);
    const whole = make("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${bottom}`, width: width * SCALE, height: bottom * SCALE });
    whole.append(make("rect", { width, height: bottom, fill: body.backgroundColor }), make("text", { class: "own", x: 8, y: 18 }, plot.figure.title), inner, ...names);
    for (const text of whole.querySelectorAll(".own")) {
      for (const [name, value] of Object.entries(own)) text.setAttribute(name, value);
    }
    const image = new Image();
    await new Promise((done, failed) => {
      image.onload = done;
      image.onerror = () => failed(new Error("the picture cannot be drawn"));
      image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(whole))}`;
    });
    const canvas = make("canvas", { width: width * SCALE, height: bottom * SCALE });
    canvas.getContext("2d").drawImage(image, 0, 0);
    return canvas.toDataURL("image/png");
  };
};
