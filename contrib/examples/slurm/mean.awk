# The mean of x over the members, at each time, and how many they are.
BEGIN { FS = OFS = "," }
FNR == 1 { members++ }
{ at[FNR] = $1; sum[FNR] += $2 }
END {
    print "time", "members", "mean_x"
    for (n = 1; n in at; n++) printf "%s,%d,%.3f\n", at[n], members, sum[n] / members
}
