#!/usr/bin/env node
// The same in Node: descriptor 3 with the synchronous calls of fs.
'use strict';
const fs = require('fs');
const dir = process.env.NIGHTSHIFT_TASK_DIR;

function checkpoint(state, progress) {
  fs.writeSync(3, JSON.stringify({ checkpoint: state, progress }) + '\n');
  const byte = Buffer.alloc(1);
  let line = '';
  while (fs.readSync(3, byte, 0, 1, null) === 1 && byte[0] !== 10) line += byte.toString();
  if (JSON.parse(line).stop) process.exit(0);
}

let at = { n: 0, bytes: 0 };
if (fs.existsSync(`${dir}/checkpoint.json`)) at = JSON.parse(fs.readFileSync(`${dir}/checkpoint.json`));
const out = fs.openSync(process.env.OUT || `${dir}/squares`, 'a');
fs.ftruncateSync(out, at.bytes);
while (at.n < 1000) {
  at.n += 1;
  at.bytes += fs.writeSync(out, `${at.n * at.n}\n`);
  if (at.n % 100 === 0) {
    fs.fsyncSync(out);
    checkpoint(at, `${at.n}/1000`);
  }
}
console.log(`${at.n} squares`);
