#pragma once

namespace harrow::launcher {

/// Makes std::cout one that remembers why a write failed. Once, before anything is printed.
void BeginOutput();
/// Flushes std::cout, as the last thing that a command does: `code`, or, where what it had to say could not be written,
/// 3 for a success or a failed task, with a line of why. That nobody reads on (`| head`) is no failure.
int EndOutput(int code);

}  // namespace harrow::launcher
