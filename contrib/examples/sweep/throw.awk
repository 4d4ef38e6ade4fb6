# A ball of 150 g, with drag, in steps of a tenth of a millisecond: prints speed (m/s), angle (degrees), distance (m).
BEGIN {
  rad = angle * atan2(0, -1) / 180
  vx = speed * cos(rad); vy = speed * sin(rad); x = 0; y = 0; dt = 1e-4
  do {
    v = sqrt(vx * vx + vy * vy)
    vx -= 0.012 * v * vx * dt
    vy -= (9.81 + 0.012 * v * vy) * dt
    x += vx * dt; y += vy * dt
  } while (y > 0)
  printf "%d,%d,%.2f\n", speed, angle, x
}
