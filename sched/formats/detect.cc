#include "formats/detect.h"

#include <array>

#include "base/text.h"
#include "formats/foreign_list.h"
#include "formats/text_rules.h"

namespace harrow::formats {
namespace {

constexpr std::string_view kScript =
    "is a script, no flow: its lines are no tasks; write a line for each run of it into a line file "
    "(SLURM_ARRAY_TASK_ID=1 sh SCRIPT), or take every line as a task with --lines";
constexpr size_t kHead = 65536;  // an XML file's root element begins within it

bool IsKeyChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == '"';
}

/// The first line that is neither blank nor a comment; empty: there is none. *batch_script: options for a
/// batch system stand before it.
std::string_view FirstLine(std::string_view text, bool* batch_script) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    while (!line.empty() && IsBlankOrReturn(line.front())) line.remove_prefix(1);
    while (!line.empty() && IsBlankOrReturn(line.back())) line.remove_suffix(1);
    if (!line.empty() && line.front() != '#') return line;
    if (line.starts_with("#SBATCH ") || line.starts_with("#PBS ")) *batch_script = true;
  }
  return {};
}

/// [table], [[table]], or key = value with a bare key.
bool LooksLikeToml(std::string_view line) {
  if (line.starts_with("[")) {
    line.remove_prefix(line.starts_with("[[") ? 2 : 1);
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    return !line.empty() && IsKeyChar(line.front()) && line.find(']') != std::string_view::npos;
  }
  size_t n = 0;
  while (n < line.size() && IsKeyChar(line[n])) ++n;
  if (n == 0) return false;
  size_t equals = n;
  while (equals < line.size() && IsBlankOrReturn(line[equals])) ++equals;
  // A shell's assignment (A=b) has no blank before the sign and no value of TOML after it.
  if (equals >= line.size() || line[equals] != '=') return false;
  size_t value = equals + 1;
  while (value < line.size() && IsBlankOrReturn(line[value])) ++value;
  return equals > n || value > equals + 1;
}

}  // namespace

std::string_view FormatName(Format format) {
  switch (format) {
    case Format::kLines:
      return "line file";
    case Format::kFlow:
      return "flow file";
    case Format::kWfFormat:
      return "WfFormat";
    case Format::kStg:
      return "standard task graph";
    case Format::kDax:
      return "DAX";
    case Format::kDagTsv:
      return "table of tasks";
    case Format::kJsonLines:
      return "JSON lines";
  }
  return "?";
}

Result<Format> Detect(std::string_view path, bool lines, std::string_view text) {
  auto no = [&](std::string_view what) { return Status(Code::kInvalid, std::string(what)); };
  struct Magic {
    std::string_view bytes, what;
  };
  static constexpr std::array<Magic, 6> kMagics = {{
      {"\x7f"
       "ELF",
       "is a program, no flow; put its command line into a line file: one command a line, FILE.txt"},
      {"\x1f\x8b", "is compressed (gzip); decompress it first: gzip -d"},
      {"\xfd"
       "7zXZ",
       "is compressed (xz); decompress it first: xz -d"},
      {"\x28\xb5\x2f\xfd", "is compressed (zstd); decompress it first: zstd -d"},
      {"BZh", "is compressed (bzip2); decompress it first: bzip2 -d"},
      {"PK\x03\x04", "is a zip archive; extract the flow file first"},
  }};
  for (const Magic& magic : kMagics) {
    if (text.starts_with(magic.bytes)) return no(magic.what);
  }
  if (lines) return Format::kLines;
  if (text.starts_with("#!")) {
    return no(kScript);
  }
  bool batch_script = false;
  const std::string_view first = FirstLine(text, &batch_script);
  if (batch_script) return no(kScript);
  // A whole object in the first line: WfFormat is one of many lines, or ends .json.
  const bool json_lines = first.starts_with("{\"") && first.ends_with("}");
  if (path.ends_with(".jsonl") || (path == "-" && json_lines)) return Format::kJsonLines;
  if (path == "-" || path.ends_with(".txt")) {
    // No command begins like this.
    if (first.starts_with("[[task]]") || first.starts_with("[flow]"))
      return no("is a flow file, no list of commands; call it FILE.toml");
    if (first == "{" || first.starts_with("{\""))
      return no("is JSON, no list of commands; WfFormat is called FILE.json");
    return Format::kLines;
  }
  if (path.ends_with(".toml")) return Format::kFlow;
  if (path.ends_with(".json")) return Format::kWfFormat;
  if (path.ends_with(".stg")) return Format::kStg;
  if (path.ends_with(".dag.tsv")) return Format::kDagTsv;
  if (IsForeignList(text)) return Format::kLines;
  if (first.empty()) {
    return no("is empty; write one command a line (FILE.txt), or [[task]] with name and command (FILE.toml)");
  }
  if (first.starts_with("{")) return Format::kWfFormat;
  if (first.starts_with("<")) {
    const std::string_view head = text.substr(0, kHead);
    for (const std::string_view root : {"<adag", ":adag"}) {
      if (path.ends_with(".dax") || head.find(root) != std::string_view::npos) return Format::kDax;
    }
    return no("looks like XML, of which only a Pegasus DAX is read; it begins with <adag>");
  }
  if (first.starts_with("T\t") || first.starts_with("F\t")) return Format::kDagTsv;
  if (LooksLikeToml(first)) return Format::kFlow;
  if (path.ends_with(".sh") || path.ends_with(".bash") || path.ends_with(".slurm") ||
      path.ends_with(".sbatch")) {
    return no(kScript);
  }
  return no(
      "is neither a line file, a flow file nor WfFormat; name a file of one command a line FILE.txt or give "
      "--lines, a "
      "flow file begins with [flow] or [[task]], WfFormat with {");
}

}  // namespace harrow::formats
