# One member: Lorenz's three equations from its start, a line of every thousandth step.
BEGIN { OFS = "," }
$1 == member && NF == 4 { x = $2; y = $3; z = $4; found = 1 }
END {
    if (!found) {
        print "member " member ": starts.txt has no x, y and z for it" > "/dev/stderr"
        exit 1
    }
    step = 0.0001
    for (n = 0; n <= 40000; n++) {
        if (n % 1000 == 0) print n * step, x, y, z
        dx = 10 * (y - x); dy = x * (28 - z) - y; dz = x * y - 8 / 3 * z
        x += step * dx; y += step * dy; z += step * dz
    }
}
