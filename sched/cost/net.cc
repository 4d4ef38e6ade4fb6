// Meta-tasks are taken in the order of their ranks, so that what a task reads is known before what it writes.
// An amount stays one entry for all as long as it is made of such: N tasks told apart by an argument cost N
// entries only where the argument matters.

#include "cost/net.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.h"

namespace harrow::cost {
namespace {

/// Sums, where both are known, of as many members as need be.
void AddTo(Amounts* sum, const Amounts& more) {
  if (sum->size() == 1 && more.size() > 1) sum->resize(more.size(), sum->front());
  for (size_t i = 0; i < sum->size(); ++i) (*sum)[i] += AmountOf(more, i);
}

/// What the tasks of a meta-task write into each stream of a meta-stream.
Amounts Gathered(const Amounts& out, uint64_t tasks, uint64_t streams) {
  if (out.size() == 1) return {out[0] * static_cast<double>(std::max<uint64_t>(1, tasks / streams))};
  Amounts sums(streams, 0);
  for (uint64_t s = 0; s < streams; ++s) {
    const Block block = TasksOf(tasks, streams, s);
    for (uint64_t t = 0; t < block.count; ++t) sums[s] += out[block.first + t];
  }
  return sums;
}

/// What each task of a meta-task gets from the streams of a meta-stream.
Amounts Shared(const Amounts& amounts, double part, uint64_t tasks, uint64_t streams) {
  if (amounts.size() == 1)
    return {amounts[0] * part * static_cast<double>(std::max<uint64_t>(1, streams / tasks))};
  Amounts got(tasks, 0);
  for (uint64_t t = 0; t < tasks; ++t) {
    const Block block = StreamsOf(tasks, streams, t);
    for (uint64_t s = 0; s < block.count; ++s) got[t] += amounts[block.first + s] * part;
  }
  return got;
}

/// How many tasks read each stream of a meta-stream.
double ReadersOf(const Net& net, const MetaStream& stream) {
  double readers = 0;
  for (const uint32_t reader : stream.readers)
    readers += static_cast<double>(std::max<uint64_t>(1, net.tasks[reader].count / stream.count));
  return readers;
}

struct Links {
  std::vector<std::vector<uint32_t>> from, to;  // by meta-task: meta-streams
};

Links FindLinks(const Net& net) {
  Links links;
  links.from.resize(net.tasks.size());
  links.to.resize(net.tasks.size());
  for (uint32_t s = 0; s < net.streams.size(); ++s) {
    for (const uint32_t task : net.streams[s].writers) links.to[task].push_back(s);
    for (const uint32_t task : net.streams[s].readers) links.from[task].push_back(s);
  }
  return links;
}

/// Meta-tasks, each after those before it; fewer than there are where there is a cycle.
std::vector<uint32_t> FindRanks(const Net& net, std::vector<uint32_t>* rank) {
  std::vector<uint32_t> open(net.tasks.size(), 0);
  // A stream stands between its writers and readers, so that many to many costs their sum.
  const auto streams = static_cast<uint32_t>(net.streams.size());
  std::vector<uint32_t> stream_rank(streams, 0), stream_open(streams, 0);
  std::vector<std::vector<uint32_t>> into(net.tasks.size());
  for (uint32_t s = 0; s < streams; ++s) {
    stream_open[s] = static_cast<uint32_t>(net.streams[s].writers.size());
    for (const uint32_t task : net.streams[s].writers) into[task].push_back(s);
    for (const uint32_t task : net.streams[s].readers) open[task] += stream_open[s] > 0 ? 1 : 0;
  }
  rank->clear();
  for (const MetaTask& task : net.tasks) rank->push_back(task.least_rank);
  std::vector<uint32_t> order;
  for (uint32_t t = 0; t < net.tasks.size(); ++t) {
    if (open[t] == 0) order.push_back(t);
  }
  const auto release = [&](uint32_t task, uint32_t at_least) {
    (*rank)[task] = std::max((*rank)[task], at_least);
    if (--open[task] == 0) order.push_back(task);
  };
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t task = order[i];
    for (const uint32_t s : into[task]) {
      stream_rank[s] = std::max(stream_rank[s], (*rank)[task] + 1);
      if (--stream_open[s] > 0) continue;
      for (const uint32_t reader : net.streams[s].readers) release(reader, stream_rank[s]);
    }
  }
  return order;
}

Status CheckNumbers(const Net& net) {
  for (const MetaStream& stream : net.streams) {
    for (const auto* side : {&stream.writers, &stream.readers}) {
      for (const uint32_t task : *side) {
        const uint64_t tasks = net.tasks[task].count;
        if (tasks == 0 || stream.count == 0 || (tasks % stream.count != 0 && stream.count % tasks != 0))
          return Status(Code::kInvalid, StrCat(tasks, " tasks cannot be connected with ", stream.count,
                                               " streams in like parts; one number has to divide the other"));
      }
    }
  }
  return Status();
}

/// The values of a formula, of each task of the meta-task; bad: some has none.
Amounts Values(const Expression& formula, const MetaTask& task, const Amounts& input, bool* bad) {
  std::vector<bool> used;
  formula.NoteArguments(&used);
  size_t size = formula.UsesInput() ? input.size() : 1;
  for (size_t a = 0; a < std::min(used.size(), task.arguments.size()); ++a) {
    if (used[a]) size = std::max(size, task.arguments[a].size());
  }
  std::vector<double> arguments(task.arguments.size());
  Amounts values(size);
  for (size_t i = 0; i < size; ++i) {
    for (size_t a = 0; a < arguments.size(); ++a) arguments[a] = AmountOf(task.arguments[a], i);
    values[i] = formula.Evaluate(arguments, AmountOf(input, i));
    *bad |= IsBad(values[i]);
    // A cost below 0 is the model's mistake, and no credit.
    if (values[i] < 0) values[i] = 0;
  }
  return values;
}

/// Of the amounts that are known, each as often as it is had.
template <class Items>
double MeanOf(const std::vector<Amounts>& all, const Items& items, const std::vector<bool>& of,
              double otherwise) {
  double sum = 0, count = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!of[i]) continue;
    const double times = all[i].size() == 1 ? items[i].count : 1;
    for (const double amount : all[i]) {
      if (!IsKnown(amount)) continue;
      sum += times * amount;
      count += times;
    }
  }
  return count > 0 ? sum / count : otherwise;
}

}  // namespace

uint64_t Net::task_count() const {
  return std::accumulate(tasks.begin(), tasks.end(), uint64_t{0},
                         [](uint64_t sum, const MetaTask& task) { return sum + task.count; });
}

uint64_t Net::stream_count() const {
  return std::accumulate(streams.begin(), streams.end(), uint64_t{0},
                         [](uint64_t sum, const MetaStream& stream) { return sum + stream.count; });
}

Block TasksOf(uint64_t tasks, uint64_t streams, uint64_t stream) {
  if (tasks >= streams) return {stream * (tasks / streams), tasks / streams};
  return {stream / (streams / tasks), 1};
}

Block StreamsOf(uint64_t tasks, uint64_t streams, uint64_t task) {
  return TasksOf(streams, tasks, task);
}

Net Expand(const Net& net) {
  Net all;
  all.programs = net.programs;
  std::vector<uint32_t> first;
  for (const MetaTask& task : net.tasks) {
    first.push_back(static_cast<uint32_t>(all.tasks.size()));
    for (uint32_t n = 0; n < task.count; ++n) {
      MetaTask one = task;
      one.count = 1;
      for (Amounts& argument : one.arguments) argument = {AmountOf(argument, n)};
      one.compute = {AmountOf(task.compute, n)};
      all.tasks.push_back(std::move(one));
    }
  }
  for (const MetaStream& stream : net.streams) {
    for (uint32_t n = 0; n < stream.count; ++n) {
      MetaStream one;
      one.split = stream.split;
      if (!stream.size.empty()) one.size = {AmountOf(stream.size, n)};
      const auto side = [&](const std::vector<uint32_t>& from, std::vector<uint32_t>* to) {
        for (const uint32_t task : from) {
          const Block block = TasksOf(net.tasks[task].count, stream.count, n);
          for (uint64_t t = 0; t < block.count; ++t)
            to->push_back(first[task] + static_cast<uint32_t>(block.first + t));
        }
      };
      side(stream.writers, &one.writers);
      side(stream.readers, &one.readers);
      all.streams.push_back(std::move(one));
    }
  }
  return all;
}

Result<Costs> FindCosts(const Net& net, uint32_t* at) {
  HARROW_RETURN_IF_ERROR(CheckNumbers(net));
  Costs costs;
  const std::vector<uint32_t> order = FindRanks(net, &costs.rank);
  if (order.size() < net.tasks.size())
    return Status(Code::kInvalid, "tasks and streams form a cycle; remove one of these connections");
  const Links links = FindLinks(net);
  costs.in.resize(net.tasks.size());
  costs.compute.resize(net.tasks.size());
  costs.out.resize(net.tasks.size());
  costs.stream.resize(net.streams.size());
  std::vector<size_t> open(net.streams.size());
  for (size_t s = 0; s < net.streams.size(); ++s) {
    const MetaStream& stream = net.streams[s];
    costs.stream[s] = stream.size.empty() ? Amounts{0} : stream.size;
    open[s] = stream.writers.size();
    // Nobody says what comes.
    if (stream.writers.empty() && stream.size.empty()) costs.stream[s] = {kUnknown};
  }
  for (const uint32_t t : order) {
    const MetaTask& task = net.tasks[t];
    Amounts brought = {kUnknown};
    bool any = false;
    for (const uint32_t s : links.from[t]) {
      const MetaStream& stream = net.streams[s];
      if (!stream.size.empty()) continue;
      if (!any) brought = {0};
      any = true;
      const double part = stream.split ? 1 / ReadersOf(net, stream) : 1;
      AddTo(&brought, Shared(costs.stream[s], part, task.count, stream.count));
    }
    bool bad = false;
    if (task.program == kNoProgram) {
      costs.in[t] = brought;
      costs.compute[t] = task.compute;
      costs.out[t] = brought;
    } else {
      const CostFunctions& program = net.programs[task.program];
      costs.in[t] = Values(program.in, task, brought, &bad);
      costs.compute[t] = Values(program.compute, task, costs.in[t], &bad);
      costs.out[t] = Values(program.out, task, costs.in[t], &bad);
    }
    if (bad && at != nullptr) *at = t;
    if (bad)
      return Status(
          Code::kInvalid,
          "a model has no value for its arguments: it divides by 0, or more comes out than a number "
          "holds; correct the model or the arguments");
    for (const uint32_t s : links.to[t]) {
      const MetaStream& stream = net.streams[s];
      if (stream.size.empty()) AddTo(&costs.stream[s], Gathered(costs.out[t], task.count, stream.count));
    }
  }
  return costs;
}

Costs Guessed(const Net& net, Costs costs) {
  const auto fill = [](Amounts* amounts, double guess) {
    for (double& amount : *amounts) {
      if (!IsKnown(amount)) amount = guess;
    }
  };
  const auto has_unknown = [](const Amounts& amounts) {
    return std::any_of(amounts.begin(), amounts.end(), [](double a) { return !IsKnown(a); });
  };
  const double all = MeanOf(costs.compute, net.tasks, std::vector<bool>(net.tasks.size(), true), 1);
  std::vector<double> of_program(net.programs.size(), kUnknown);
  const std::vector<Amounts> known = costs.compute;
  for (size_t t = 0; t < net.tasks.size(); ++t) {
    if (!has_unknown(costs.compute[t])) continue;
    double guess = all;
    if (const uint32_t program = net.tasks[t].program; program != kNoProgram) {
      if (!IsKnown(of_program[program])) {
        std::vector<bool> same(net.tasks.size());
        for (size_t u = 0; u < net.tasks.size(); ++u) same[u] = net.tasks[u].program == program;
        of_program[program] = MeanOf(known, net.tasks, same, all);
      }
      guess = of_program[program];
    }
    fill(&costs.compute[t], guess);
  }
  const double bytes = MeanOf(costs.stream, net.streams, std::vector<bool>(net.streams.size(), true), 0);
  for (Amounts& stream : costs.stream) fill(&stream, bytes);
  for (Amounts& out : costs.out) fill(&out, bytes);
  for (Amounts& in : costs.in) fill(&in, bytes);
  return costs;
}

}  // namespace harrow::cost
