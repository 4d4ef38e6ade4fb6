#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace harrow::formats {

/// How a command text is to be started (the rule: command_form.cc). For kArgv *argv holds the arguments,
/// separated by NUL; otherwise the text itself is the command.
graph::CommandForm Classify(std::string_view text, std::string* argv);

/// The command of form kArgv that is made of these words.
std::string ArgumentsOf(const std::vector<std::string>& words);

/// Is a command of that form made of arguments, separated by NUL?
bool HasArguments(graph::CommandForm form);

/// The program of a command, without its directory; "sh" where a shell text hides it. Views into `command`.
std::string_view ProgramName(std::string_view command, graph::CommandForm form);

/// Whether it is one that starts the ranks of an MPI program, as mpirun and srun do.
bool StartsRanks(std::string_view program);

/// What a user is told who has a task of so many ranks start `program`, which StartsRanks.
std::string RanksTwiceText(std::string_view program, uint32_t ranks);

/// What tasks are grouped by when nothing else is said: the script that an interpreter is given, else the
/// program. Views into `command`.
std::string_view KindName(std::string_view command, graph::CommandForm form);

/// Whether the kernel would start it; otherwise what is wrong and what would be right.
Status CheckCommandSize(std::string_view command, graph::CommandForm form);

/// A command as one line for people: arguments quoted as a shell wants them.
std::string CommandText(std::string_view command, graph::CommandForm form);

}  // namespace harrow::formats
