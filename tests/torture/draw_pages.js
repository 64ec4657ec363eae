// SPDX-License-Identifier: Apache-2.0
// Draws pages of `holdfast torture` as a browser would: beside each, a file .drawn with what its
// script makes of its data. A page has that script and those data, and fetches nothing.
'use strict';

const assert = require('assert');
const fs = require('fs');
const vm = require('vm');

for (const name of process.argv.slice(2)) {
    const page = fs.readFileSync(name, 'utf8');
    const parts = page.split(/<script[^>]*>|<\/script>/);
    assert.deepStrictEqual(page.match(/<\/?script[^>]*>/g), [
        '<script type="application/json" id="data">', '</script>', '<script>', '</script>'], name);
    assert(!/https?:|@import|<(link|img|iframe|object)/.test(page.replace(parts[1], '')), name);
    assert(!/url\((?!#)/.test(page.replace(parts[1], '')), name);
    const drawn = vm.runInNewContext(`${parts[3]}; render(data)`, { data: JSON.parse(parts[1]) });
    assert(!/undefined|NaN|\[object/.test(drawn), name);
    fs.writeFileSync(`${name}.drawn`, `<html><body>${drawn}</body></html>`);
}
