"""PNG files of small size: screenshots with at most 256 colors, and so one byte per pixel."""

import base64
import struct
import zlib
from typing import Final

from playwright.sync_api import Page

#: JavaScript that returns a palette of the most frequent colors in a screenshot, and for each pixel
#: the index of the nearest color.
REDUCE: Final = """
async source => {
  const image = new Image();
  image.src = "data:image/png;base64," + source;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const rgba = context.getImageData(0, 0, image.width, image.height).data;
  const counts = new Map(), colors = new Uint32Array(rgba.length / 4);
  for (let n = 0; n < colors.length; n++) {
    colors[n] = rgba[4 * n] * 65536 + rgba[4 * n + 1] * 256 + rgba[4 * n + 2];
    counts.set(colors[n], (counts.get(colors[n]) ?? 0) + 1);
  }
  const palette = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a)).slice(0, 256);
  const channels = color => [color >> 16, (color >> 8) & 255, color & 255];
  const near = new Map(palette.map((color, index) => [color, index]));
  for (const color of counts.keys()) {
    if (near.has(color)) continue;
    const [r, g, b] = channels(color);
    const distances = palette.map(other => {
      const [x, y, z] = channels(other);
      return (r - x) ** 2 + (g - y) ** 2 + (b - z) ** 2;
    });
    near.set(color, distances.indexOf(Math.min(...distances)));
  }
  const pixels = Array.from(colors, color => String.fromCharCode(near.get(color)));
  return {width: image.width, colors: palette, pixels: btoa(pixels.join(""))};
}
"""


def reduce_colors(page: Page, png: bytes) -> bytes:
    """Return the screenshot with a palette of colors.

    A script in the browser page reduces the colors; the page must be blank.
    """
    reply = page.evaluate(REDUCE, base64.b64encode(png).decode())
    pixels, width = base64.b64decode(reply["pixels"]), reply["width"]
    rows = [pixels[start : start + width] for start in range(0, len(pixels), width)]
    colors = b"".join(color.to_bytes(3, "big") for color in reply["colors"])
    header = struct.pack(">IIBBBBB", width, len(rows), 8, 3, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    parts = [(b"IHDR", header), (b"PLTE", colors), (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
