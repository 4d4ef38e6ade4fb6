# One row of the Mandelbrot set, 79 characters wide, as "row<TAB>characters".
BEGIN {
  shades = " .:-=+*#%@"
  y = 1.2 - 2.4 * (row + 0.5) / rows
  line = ""
  for (column = 0; column < 79; ++column) {
    # A cell is the mean of 12 x 12 points: enough work to be worth a task.
    sum = 0
    for (i = 0; i < 144; ++i) {
      cx = -2.2 + 3.2 * (column + (i % 12) / 12) / 79
      cy = y + 2.4 / rows * (int(i / 12) / 12 - 0.5)
      zx = zy = 0
      for (n = 0; n < 60 && zx * zx + zy * zy < 4; ++n) {
        t = zx * zx - zy * zy + cx
        zy = 2 * zx * zy + cy
        zx = t
      }
      sum += n
    }
    shade = int(sum / 144 / 60 * 9.99 * 2.2)
    line = line substr(shades, 1 + (shade > 9 ? 9 : shade), 1)
  }
  printf "%d\t%s\n", row, line
}
