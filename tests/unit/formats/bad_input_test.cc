// Every case of tests/data/bad_input.table, read from memory: refused at the place and with the words that
// the table says.
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

#include "base/text.h"
#include "support/loaded_flow.h"

namespace harrow::formats {
namespace {

struct Case {
  std::string name, at, wrong, right, content;
  bool lines = false;
};

std::string Unescape(const std::string& text) {
  std::string repeated;
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "<<") == 0) {
      const size_t star = text.find('*', i), end = text.find(">>", i);
      const std::string piece = text.substr(star + 1, end - star - 1);
      for (int n = std::atoi(text.c_str() + i + 2); n > 0; --n) repeated += piece;
      i = end + 2;
    } else {
      repeated += text[i++];
    }
  }
  std::string out;
  for (size_t i = 0; i < repeated.size(); ++i) {
    if (repeated[i] != '\\') {
      out += repeated[i];
    } else if (repeated[++i] == 'x') {
      out += static_cast<char>(std::strtol(repeated.substr(i + 1, 2).c_str(), nullptr, 16));
      i += 2;
    } else {
      out += repeated[i] == 'r' ? '\r' : repeated[i];
    }
  }
  return out;
}

std::vector<Case> ReadTable() {
  std::ifstream file(HARROW_SOURCE_DIR "/tests/data/bad_input.table");
  std::stringstream all;
  all << file.rdbuf();
  std::vector<Case> cases;
  const std::string text = all.str();
  for (size_t at = text.find("\n### ") + 1; at != std::string::npos;) {
    const size_t next = text.find("\n### ", at), begin = text.find(">>>\n", at);
    std::istringstream head(text.substr(at + 4, begin - at - 4));
    Case c;
    std::string line;
    std::getline(head, line);
    c.name = line.substr(0, line.find(' '));
    c.lines = line.find(" --lines") != std::string::npos;
    while (std::getline(head, line)) {
      const size_t blank = std::min(line.find(' '), line.size() - 1);
      (line[0] == 'a' ? c.at : line[0] == 'w' ? c.wrong : c.right) = line.substr(blank + 1);
    }
    std::string content =
        next == std::string::npos ? text.substr(begin + 4) : text.substr(begin + 4, next + 1 - begin - 4);
    if (!content.empty()) content.pop_back();
    c.content = Unescape(content);
    cases.push_back(std::move(c));
    at = next == std::string::npos ? next : next + 1;
  }
  return cases;
}

TEST(BadInputTest, EveryCaseOfTheTable) {
  const std::vector<Case> cases = ReadTable();
  ASSERT_GE(cases.size(), 40u);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    test::LoadedFlow f;
    f.options.inputs_must_exist = true;
    f.options.check_outputs = true;
    if (c.name.starts_with("setting-")) continue;  // config knows them; the live test has them
    const Status status = Load(f.fs, {{c.name, c.lines, c.content}}, f.options, &f.graph, &f.flow);
    ASSERT_EQ(status.code(), Code::kInvalid) << status.message();
    const std::string place = StrCat(c.name, ":", c.at, ": ");
    const size_t at = status.message().find(place);
    ASSERT_NE(at, std::string::npos) << "not at " << c.at << ": " << status.message();
    const std::string message = status.message().substr(at, status.message().find('\n', at) - at);
    EXPECT_NE(message.find(c.wrong), std::string::npos) << message;
    EXPECT_NE(message.find(c.right), std::string::npos) << message;
    EXPECT_NE(message.find("; "), std::string::npos) << "says nothing of what would be right: " << message;
    EXPECT_LT(status.message().size(), 10000u);
  }
}

TEST(BadInputTest, NothingToRead) {
  test::LoadedFlow f;
  EXPECT_EQ(Load(f.fs, {}, f.options, &f.graph, &f.flow).code(), Code::kInvalid);
  const Status missing = Load(f.fs, {{"none.txt", false, {}}}, f.options, &f.graph, &f.flow);
  EXPECT_EQ(missing.code(), Code::kInvalid);
  EXPECT_NE(missing.message().find(
                "none.txt:1:1: cannot read none.txt: No such file or directory; name a readable file"),
            std::string::npos)
      << missing.message();
}

TEST(BadInputTest, OnlySoManyProblemsAreShown) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "#HARROW coers=4\n";
  test::LoadedFlow f("x.txt", text);
  EXPECT_EQ(std::count(f.status.message().begin(), f.status.message().end(), '\n'), 20);
  EXPECT_NE(f.status.message().find("(reading stopped after 20 problems)"), std::string::npos);
}

}  // namespace
}  // namespace harrow::formats
