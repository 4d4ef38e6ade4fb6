BEGIN { print (x - 1.25) ^ 2 + 3 }
