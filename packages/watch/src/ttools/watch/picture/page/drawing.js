"use strict";
// General functions for colours and canvases.
const $ = (id) => document.getElementById(id);
const style = getComputedStyle(document.documentElement);
const tone = (name) => style.getPropertyValue(`--${name}`).trim();
// Multiples of the golden angle give neighbours different hues. All hues differ from the red of the
// chosen program.
const programColour = (program) => `hsl(${40 + ((program * 137.508) % 260)} 55% 58%)`;
// Cells that several programs access are pale; different neighbouring pairs have different hues.
const sharedColour = (low, high) => `hsl(${((low * 31 + high * 17) * 137.508) % 360} 22% 66%)`;
// A scale from blue through pale to red, which is dark at both ends; `share` is from 0 to 1.
function scaleColour(share) {
  const hue = share < 0.5 ? 215 : 20;
  return `hsl(${hue} 75% ${88 - 80 * Math.abs(share - 0.5)}%)`;
}
function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.hidden = false;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.clearRect(0, 0, width, height);
  return context;
}
// The horizontal and vertical scale of a canvas, which a narrow window may have shrunk.
const scaleOf = (canvas) => [canvas.clientWidth / parseFloat(canvas.style.width), canvas.clientHeight / parseFloat(canvas.style.height)];
// The [row, column] of the cell that a mouse event points at, or null.
function cellAt(event, rows, columns, width, height) {
  const box = event.target.getBoundingClientRect();
  const border = event.target.clientLeft;
  const [right, down] = scaleOf(event.target);
  const column = Math.floor((event.clientX - box.left - border) / (width * right));
  const row = Math.floor((event.clientY - box.top - border) / (height * down));
  return row >= 0 && column >= 0 && row < rows && column < columns ? [row, column] : null;
}
const count = (number) => number.toLocaleString("en");
function options(select, names) {
  select.replaceChildren(...names.map(([value, text]) => new Option(text, value)));
}
const range = (first, last) => first === last ? count(first) : `${count(first)} to ${count(last)}`;
