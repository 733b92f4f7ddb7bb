// The parts of Observable Plot that charts.js uses.
export {
  areaY, axisX, axisY, cell, dot, gridX, gridY, legend, line, link, plot, pointer, pointerX, ruleX, ruleY,
  scale, text, tip,
} from "@observablehq/plot";
