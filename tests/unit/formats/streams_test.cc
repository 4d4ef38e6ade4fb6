#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "formats/models.h"
#include "support/loaded_flow.h"

namespace harrow::formats {
namespace {

using test::LoadedFlow;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kFigure1 = R"toml(
[[task]]
name = "make"
command = "make 0 10 5"
to = ["s1"]
model = "compute(20 * @arg[1]) output(@arg[2])"

[[task]]
name = "map-{i}"
each = { i = "1-4" }
command = "map {i}"
from = ["s1"]
to = ["s2-{i}"]
model = """
WHILE
  input(1)
  FOR @arg[0] compute(100) END
  output(10)
END
"""

[[task]]
name = "reduce-{i}-{k}"
each = { i = "1-4", k = "1-2" }
command = ["reduce", "{k}"]
from = ["s2-{i}"]
)toml";

std::string Task(const std::string& name, const std::string& keys) {
  return "[[task]]\nname = \"" + name + "\"\ncommand = \"x 1\"\n" + keys + "\n";
}

TEST(FlowStreams, ConnectTasks) {
  LoadedFlow f("f.toml", kFigure1);
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  ASSERT_EQ(f.graph.streams().size(), 5u);
  EXPECT_EQ(f.graph.streams()[0].readers.size(), 4u);
  EXPECT_EQ(f.graph.streams()[2].name, "s2-2");
  EXPECT_EQ(f.graph.streams()[2].writers[0], f.Task("map-2"));
  EXPECT_EQ(f.graph.streams()[2].readers.size(), 2u);
  EXPECT_TRUE(f.graph.StartSuffices(f.Task("map-2"), f.Task("reduce-2-1")));
  EXPECT_FALSE(f.graph.StartSuffices(f.Task("map-1"), f.Task("reduce-2-1")));
  EXPECT_EQ(f.graph.level(f.Task("make")), 2);
  EXPECT_EQ(f.graph.models().size(), 2u);
  EXPECT_EQ(f.graph.model(f.Task("map-4")), 1u);
  EXPECT_EQ(f.graph.model(f.Task("reduce-1-1")), UINT32_MAX);
}

TEST(FlowStreams, ConnectBlocksByArithmetic) {
  // T2[i] with T3[2i] and T3[2i+1].
  LoadedFlow f("f.toml", "[[task]]\nname = \"t2-{i}\"\neach = { i = \"0-3\" }\ncommand = \"map {i}\"\nto = [\"s-{i}\"]\nout = [\"o-{i+1:2}\"]\n"
                         "[[task]]\nname = \"t3-{j}\"\neach = { j = \"0-7\" }\ncommand = \"reduce {j%2}\"\nfrom = [\"s-{j/2}\"]\n"
                         "[[task]]\nname = \"end-{k}\"\neach = { k = \"1-4\" }\ncommand = \"end\"\nin = [\"o-{k:2}\"]\nafter = [\"t3-{2*k-1}\"]\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  ASSERT_EQ(f.graph.streams().size(), 4u);
  for (uint32_t n = 0; n < 4; ++n) {
    const graph::Stream& stream = f.graph.streams()[n];
    EXPECT_EQ(stream.writers, std::vector<TaskId>{TaskId(n)});
    EXPECT_EQ(stream.readers, (std::vector<TaskId>{TaskId(4 + 2 * n), TaskId(5 + 2 * n)}));
  }
  EXPECT_EQ(f.graph.command(f.Task("t3-5")), "reduce 1");
  EXPECT_EQ(f.graph.producer(f.graph.inputs(f.Task("end-3"))[0]), f.Task("t2-2"));
}

TEST(FlowStreams, WhatIsWrongWithArithmeticHasItsPlace) {
  const auto message = [](const std::string& from) {
    return LoadedFlow("f.toml", "[[task]]\nname = \"a\"\ncommand = \"x\"\nto = [\"s-1\"]\n\n[[task]]\nname = \"b-{j}\"\neach = { j = [\"0\", \"4\", \"k\"] }\n"
                                "command = \"x\"\nfrom = [\"" + from + "\"]\n").status.message();
  };
  EXPECT_THAT(message("s-{4/j}"), StartsWith("f.toml:10:9: {4/j} divides by 0"));
  EXPECT_THAT(message("s-{j*}"), StartsWith("f.toml:10:9: {j*}: a key or a number is missing at character 4"));
  EXPECT_THAT(message("s-{j+1}"), HasSubstr("f.toml:10:9: {j+1} cannot be calculated: j is \"k\""));
  EXPECT_THAT(message("s-{j+i}"), StartsWith("f.toml:10:9: {j+i}: i is no key of each"));
}

TEST(FlowStreams, PatternsMeanStreamsThatAreNamedElsewhere) {
  LoadedFlow f("f.toml", Task("a", "to = [\"s-1\"]") + Task("b", "to = [\"s-*\"]") +
                             Task("d", "to = \"s-2\"") + Task("c", "from = [\"s-*\"]\nshare = \"split\""));
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  ASSERT_EQ(f.graph.streams().size(), 2u);
  for (const graph::Stream& stream : f.graph.streams()) {
    EXPECT_EQ(stream.writers.size(), 2u);
    EXPECT_EQ(stream.readers.size(), 1u);
    EXPECT_TRUE(stream.split);
  }
}

TEST(FlowStreams, WhatIsWrongIsToldWithItsPlace) {
  const auto told = [](const std::string& text) {
    LoadedFlow f("f.toml", text);
    return f.status.message();
  };
  EXPECT_EQ(told(Task("a", "to = [\"lines\"]") + Task("b", "from = [\"line\"]")),
            "f.toml:8:9: no task writes stream \"line\"; did you mean \"lines\"?");
  EXPECT_EQ(told(Task("b", "from = [\"q-*\"]")),
            "f.toml:4:9: \"q-*\" matches no stream that a task writes; correct it, or name the stream in "
            "some task's to");
  EXPECT_EQ(told(Task("a", "to = [\"q-*\"]")),
            "f.toml:4:7: \"q-*\" matches no stream that a task names; correct it, or name the stream in some "
            "task's from");
  EXPECT_EQ(told(Task("a", "to = [\"s\"]\nfrom = [\"s\"]")),
            "f.toml:5:9: task \"a\" reads stream \"s\", which it writes itself; let another task read it");
  EXPECT_THAT(told(Task("a", "to = [\"s\"]\nfrom = [\"t\"]") + Task("b", "to = [\"t\"]\nfrom = [\"s\"]")),
              HasSubstr("tasks wait for each other in a cycle: a -> b -> a"));
  EXPECT_EQ(told(Task("a", "to = [\"s\"]") + Task("b", "from = [\"s\"]\nshare = \"split\"") +
                 Task("c", "from = [\"s\"]")),
            "f.toml:13:9: stream \"s\" is split for some readers and whole for others (f.toml:8:9); write "
            "the same share "
            "for all that read it");
  EXPECT_THAT(told(Task("a", "share = \"split\"")),
              StartsWith("f.toml:4:9: share is of the streams that a task reads"));
  EXPECT_THAT(told(Task("a", "to = [\"s\"]\nshare = \"some\"")),
              StartsWith("f.toml:5:9: share cannot be \"some\"; write all"));
  EXPECT_THAT(told(Task("a", "to = [\"s\"]\nstdout = \"f\"")),
              StartsWith("f.toml:5:10: to and stdout exclude each other"));
  EXPECT_THAT(told(Task("a", "to = [\"s\"]") + Task("b", "from = [\"s\"]\nstdin = \"f\"")),
              StartsWith("f.toml:9:9: from and stdin exclude each other"));
  EXPECT_THAT(told(Task("a", "to = [\"s\"]\nranks = 2")),
              StartsWith("f.toml:4:7: streams are of tasks of one process"));
  EXPECT_THAT(told(Task("a", "records = \"zero\"")),
              StartsWith("f.toml:4:11: records is of the streams that a task writes"));
  for (const char* wrong : {"line", "bytes:", "bytes:0", "bytes:1.5", "bytes:-1", "bytes:9999999999", "zeroes"}) {
    EXPECT_THAT(told(Task("a", std::string("to = [\"s\"]\nrecords = \"") + wrong + "\"")),
                StartsWith(std::string("f.toml:5:11: records cannot be \"") + wrong + "\"; write lines, zero"));
  }
  EXPECT_EQ(told(Task("a", "to = [\"s\"]") + Task("b", "to = [\"s\"]\nrecords = \"zero\"")),
            "f.toml:8:7: stream \"s\" consists of other records for another of its writers (f.toml:4:7); write the same "
            "records for all that write it");
  EXPECT_THAT(told(Task("a", "to = [\"\"]")), StartsWith("f.toml:4:7: to names a stream with an empty name"));
}

TEST(FlowStreams, AreHeldOpenByTasksAndByThemselves) {
  LoadedFlow f("f.toml", "[[stream]]\nname = \"s-{i}\"\neach = { i = \"1-2\" }\nopen = true\n" + Task("a", "open = [\"t\"]") +
                             Task("b", "from = [\"s-*\", \"t\"]"));
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  ASSERT_EQ(f.graph.streams().size(), 3u);
  for (const graph::Stream& stream : f.graph.streams()) {
    EXPECT_TRUE(stream.writers.empty()) << "who holds it may connect some";
    ASSERT_EQ(stream.holds.size(), 1u);
    EXPECT_EQ(stream.holds[0].task, stream.name == "t" ? f.Task("a") : TaskId());
    EXPECT_EQ(stream.readers.size(), 1u);
  }
  const auto held = f.graph.streams_held(f.Task("a"));
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(f.graph.streams()[held[0].second.value].name, "t");
  const auto told = [](const std::string& text) {
    LoadedFlow g("f.toml", text);
    return g.status.message();
  };
  EXPECT_EQ(told("[[stream]]\nname = \"s\"\nopen = 1\n" + Task("a", "")), "f.toml:3:8: open is a whole number; write open = true");
  EXPECT_THAT(told("[[stream]]\nname = \"s\"\n" + Task("a", "")), StartsWith("f.toml:1:1: a stream has name and open"));
  EXPECT_THAT(told("[[stream]]\nname = \"s\"\nopen = true\nshare = \"split\"\n" + Task("a", "")),
              StartsWith("f.toml:4:1: unknown key share"));
  EXPECT_EQ(told("[[stream]]\nname = \"s\"\nopen = false\n" + Task("a", "from = [\"s\"]")),
            "f.toml:7:9: no task writes stream \"s\"; name it in the to of the task that writes it");
  EXPECT_THAT(told(Task("a", "open = [\"s\"]\nfrom = [\"s\"]")), HasSubstr("task \"a\" holds a stream open (open) until it has ended"));
  EXPECT_THAT(told(Task("b", "from = [\"s\"]") + Task("c", "after = [\"b\"]") + Task("a", "open = [\"s\"]\nafter = [\"c\"]")),
              HasSubstr("task \"a\" holds a stream open (open) until it has ended, and waits for one that reads it"));
}

TEST(LineStreams, AreOfTheLinesThatFollow) {
  LoadedFlow f("f.txt", "#HARROW to=s,t records=zero\nw 1\nw 2\n#HARROW from=s share=split\nr 1\n#HARROW from=t open=u\nr 2\n#HARROW\nx\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  ASSERT_EQ(f.graph.streams().size(), 3u);
  const graph::Stream &s = f.graph.streams()[0], &t = f.graph.streams()[1], &u = f.graph.streams()[2];
  EXPECT_EQ(s.writers, (std::vector<TaskId>{TaskId(0), TaskId(1)}));
  EXPECT_EQ(s.records, kZeroEnded);
  EXPECT_TRUE(s.split);
  EXPECT_EQ(s.readers, std::vector<TaskId>{TaskId(2)});
  EXPECT_FALSE(t.split);
  EXPECT_EQ(t.readers, std::vector<TaskId>{TaskId(3)});
  EXPECT_EQ(u.holds.at(0).task, TaskId(3));
  EXPECT_FALSE(f.graph.has_streams(TaskId(4)));
  const auto told = [](const std::string& text) {
    LoadedFlow g("f.txt", text);
    return g.status.message();
  };
  EXPECT_THAT(told("#HARROW from=s stdin=f\nr\n"), HasSubstr("f.txt:1:9: from and stdin exclude each other"));
  EXPECT_THAT(told("#HARROW to=s ranks=2\nr\n"), HasSubstr("of tasks of one process"));
  EXPECT_THAT(told("#HARROW share=some from=s\nr\n"), HasSubstr("f.txt:1:9: share cannot be \"some\""));
  EXPECT_THAT(told("#HARROW records=some to=s\nr\n"), HasSubstr("records cannot be"));
  EXPECT_THAT(told("#HARROW from=s\nr\n"), HasSubstr("f.txt:1:1: no task writes stream \"s\""));
}

TEST(FlowStreams, ThoseThatShareOneDoNotWaitForEachOther) {
  const std::string shared = "from = [\"s\"]\nshare = \"split\"\n", two = "from = [\"t\"]\nshare = \"split\"\n";
  const auto told = [](const std::string& text) {
    LoadedFlow f("f.toml", text);
    return f.status.message();
  };
  const std::string writers = Task("w", "to = [\"s\"]") + Task("v", "to = [\"t\"]");
  EXPECT_EQ(told(writers + Task("a", shared) + Task("b", shared) + Task("c", two) + Task("d", two + "after = [\"a\"]")), "");
  EXPECT_EQ(told(writers + Task("a", shared) + Task("x", "from = [\"t\"]\nafter = [\"a\"]") + Task("b", shared + "after = [\"x\"]")),
            "f.toml:21:8: tasks \"a\" and \"b\" share a stream (share = \"split\") and so are done together, and one waits for "
            "the other; let them share no stream, or take away what makes one wait");
  // By way of another group.
  EXPECT_THAT(told(writers + Task("a", shared) + Task("b", shared + "after = [\"c\"]") + Task("c", two) +
                   Task("d", two + "after = [\"a\"]")),
              HasSubstr("share a stream (share = \"split\") and so are done together"));
}

TEST(FlowStreams, WhatTheyConsistOf) {
  LoadedFlow f("f.toml", Task("a", "to = [\"s\"]\nrecords = \"zero\"") + Task("b", "to = [\"t\"]\nrecords = \"bytes:4096\"") +
                             Task("c", "to = [\"u\"]\nrecords = \"lines\"") + Task("d", "from = [\"*\"]"));
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  ASSERT_EQ(f.graph.streams().size(), 3u);
  EXPECT_EQ(f.graph.streams()[0].records, kZeroEnded);
  EXPECT_EQ(BytesOf(f.graph.streams()[1].records), 4096u);
  EXPECT_EQ(f.graph.streams()[2].records, kLines);
  EXPECT_EQ(f.graph.streams_read(TaskId(3)).size(), 3u);
  EXPECT_TRUE(f.graph.has_streams(TaskId(0)));
}

TEST(FlowModels, ProblemsHaveTheirPlaceInTheFlow) {
  const auto told = [](const std::string& text) {
    LoadedFlow f("f.toml", text);
    return f.status.message();
  };
  EXPECT_THAT(told(Task("a", "model = \"compute(1) FOO\"")),
              StartsWith("f.toml:4:21: unknown statement FOO"));
  EXPECT_THAT(told(Task("a", "model = \"\"\"\ncompute(1)\n  FOO\n\"\"\"")),
              StartsWith("f.toml:6:3: unknown statement FOO"));
  EXPECT_THAT(told(Task("a", "model = '''FOO'''")), StartsWith("f.toml:4:12: unknown statement FOO"));
  EXPECT_THAT(told(Task("a", "model = \"\"")), StartsWith("f.toml:4:9: model is empty"));
  EXPECT_EQ(told(Task("a", "model = \"compute(@arg[1])\"")),
            "f.toml:4:9: the model needs @arg[1], and the command of task \"a\" has 1 argument; @arg[0] is "
            "the first behind "
            "the program");
  EXPECT_THAT(told("[[task]]\nname = \"a\"\ncommand = \"x y\"\nmodel = \"compute(@arg[0])\"\n"),
              StartsWith("f.toml:4:9: the model needs @arg[0], which of task \"a\" is \"y\" and no number"));
  // Nobody knows the words of what a shell reads.
  EXPECT_EQ(told("[[task]]\nname = \"a\"\ncommand = \"x $N\"\nmodel = \"compute(@arg[0])\"\n"), "");
}

TEST(FlowModels, AModelMayLieInAFile) {
  LoadedFlow f;
  ASSERT_TRUE(f.fs.WriteWhole("/d/x.meta", "compute(7)\noutput(\n").ok());
  f.Load("f.toml", Task("a", "model = \"@x.meta\""));
  EXPECT_THAT(f.status.message(), StartsWith("x.meta:3:1: here the program ends"));
  LoadedFlow g;
  g.Load("f.toml", Task("a", "model = \"@none.meta\""));
  EXPECT_THAT(g.status.message(), StartsWith("f.toml:4:9: model: "));
}

}  // namespace
}  // namespace harrow::formats
