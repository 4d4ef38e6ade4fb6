#include "launcher/login_environment.h"

#include <algorithm>
#include <array>
#include <pwd.h>
#include <string_view>
#include <unistd.h>

#include "base/text.h"
#include "batch/slurm_query.h"

namespace harrow::launcher {
namespace {

constexpr Duration kMostTime = std::chrono::seconds(10);
constexpr std::string_view kMark = "HARROW-LOGIN";  // behind what profiles print

/// Of the shell that was asked, or of the job that it was asked in.
bool IsOfTheAsking(std::string_view name) {
  constexpr std::string_view kNames[] = {"PWD", "OLDPWD", "SHLVL", "TERM", "_"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         name.starts_with("SLURM_") || name.starts_with("SPANK_") || name.starts_with("HARROW_");
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> LoginEnvironment() {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> space(size_t{64} << 10);
  if (getpwuid_r(getuid(), &entry, space.data(), space.size(), &found) != 0 || found == nullptr)
    return Status(Code::kUnavailable, StrCat("user ", getuid(), " is in no list of users"));
  const std::string shell =
      found->pw_shell != nullptr && *found->pw_shell != '\0' ? found->pw_shell : "/bin/sh";
  const std::string kind = shell.substr(shell.rfind('/') + 1);
  constexpr std::string_view kAsked[] = {"bash", "dash", "ksh", "sh", "zsh"};
  if (std::find(std::begin(kAsked), std::end(kAsked), kind) == std::end(kAsked))
    return Status(Code::kUnavailable, StrCat("the login shell ", Printable(shell, 200), " cannot be asked"));
  const Result<std::string> said =
      batch::RunCommand({"env", "-i", StrCat("HOME=", found->pw_dir), StrCat("USER=", found->pw_name),
                         StrCat("LOGNAME=", found->pw_name), StrCat("SHELL=", shell), "TERM=dumb",
                         "PATH=/usr/local/bin:/usr/bin:/bin", shell, "-l", "-c",
                         StrCat("printf '\\0", kMark, "\\0'; exec env -0")},
                        kMostTime);
  if (!said.ok()) return said.status();
  const std::string mark = StrCat(std::string_view("\0", 1), kMark, std::string_view("\0", 1));
  const size_t at = said->find(mark);
  if (at == std::string::npos)
    return Status(Code::kUnavailable, StrCat("the login shell ", Printable(shell, 200), " did not tell"));
  std::vector<std::pair<std::string, std::string>> variables;
  for (std::string_view rest = std::string_view(*said).substr(at + mark.size()); !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const size_t equals = one.find('=');
    if (equals == std::string_view::npos || equals == 0 || IsOfTheAsking(one.substr(0, equals))) continue;
    variables.emplace_back(one.substr(0, equals), one.substr(equals + 1));
  }
  return variables;
}

}  // namespace harrow::launcher
