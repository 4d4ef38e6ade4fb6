// Each attempt adds its cores to the time bins that it covers, whole bins by a difference array, the two at
// its ends by the covered part: a bin's height is the mean number of cores in use, so that a million short
// tasks are drawn truly.

#include "report/plot.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "base/text.h"
#include "report/json.h"

namespace harrow::report {
namespace {

constexpr size_t kMostKinds = 12;
constexpr size_t kBins = 800;
constexpr double kLeft = 60, kTop = 40, kWide = 800, kHigh = 320, kLegend = 220;

// Paul Tol's "muted" and "bright" sets: told apart also by colour-blind readers.
constexpr const char* kColours[] = {"#332288", "#88CCEE", "#44AA99", "#117733", "#999933",
                                    "#DDCC77", "#CC6677", "#882255", "#AA4499", "#4477AA",
                                    "#EE6677", "#228833", "#BBBBBB"};

std::string Number(double value) {
  return FixedText(value, 2);
}

constexpr size_t kLegendLetters = 26;  // of 12 points, in kLegend

std::string XmlText(std::string_view text, size_t most = 120) {
  std::string out;
  for (const char c : Printable(text, most)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

/// A round step (1, 2 or 5 times a power of ten) that gives about `count` ticks up to `most`.
double TickStep(double most, int count) {
  const double raw = std::max(most, 1e-9) / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

std::string TickText(double value) {
  return StrCat(value);
}

struct Series {
  std::string name;
  double core_seconds = 0;
  std::vector<double> height = std::vector<double>(kBins + 1, 0);
};

/// Adds `cores` over [from, to), in bins.
void AddInterval(double from, double to, double cores, std::vector<double>* whole,
                 std::vector<double>* height) {
  from = std::clamp(from, 0.0, static_cast<double>(kBins));
  to = std::clamp(to, from, static_cast<double>(kBins));
  const auto first = static_cast<size_t>(from), last = static_cast<size_t>(to);
  if (first == last) {
    (*height)[first] += cores * (to - from);
    return;
  }
  (*height)[first] += cores * (static_cast<double>(first + 1) - from);
  (*height)[last] += cores * (to - static_cast<double>(last));
  (*whole)[first + 1] += cores;
  (*whole)[last] -= cores;
}

std::vector<Series> MakeSeries(const Plot& plot, double span) {
  std::vector<Series> all;
  for (const std::string& name : plot.series) all.push_back({.name = name});
  std::vector<std::vector<double>> whole(all.size(), std::vector<double>(kBins + 2, 0.0));
  for (const PlotInterval& each : plot.intervals) {
    if (each.to <= each.from) continue;
    Series& series = all[each.series];
    series.core_seconds += (each.to - each.from) * each.cores;
    AddInterval(each.from / span * kBins, each.to / span * kBins, each.cores, &whole[each.series], &series.height);
  }
  for (size_t s = 0; s < all.size(); ++s) {
    double open = 0;
    for (size_t bin = 0; bin < kBins; ++bin) all[s].height[bin] += (open += whole[s][bin]);
  }
  if (all.size() <= kMostKinds) return all;
  // Keeps the flow's order among the kinds that are drawn on their own.
  std::vector<size_t> by_size(all.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return all[a].core_seconds > all[b].core_seconds; });
  std::sort(by_size.begin(), by_size.begin() + kMostKinds);
  std::vector<Series> drawn;
  for (size_t k = 0; k < kMostKinds; ++k) drawn.push_back(std::move(all[by_size[k]]));
  Series rest{.name = StrCat(all.size() - kMostKinds, " other kinds")};
  for (size_t k = kMostKinds; k < by_size.size(); ++k) {
    rest.core_seconds += all[by_size[k]].core_seconds;
    for (size_t bin = 0; bin < kBins; ++bin) rest.height[bin] += all[by_size[k]].height[bin];
  }
  drawn.push_back(std::move(rest));
  return drawn;
}

std::string Line(double x1, double y1, double x2, double y2, const char* style) {
  return StrCat("<line x1=\"", Number(x1), "\" y1=\"", Number(y1), "\" x2=\"", Number(x2), "\" y2=\"",
                Number(y2), "\" ", style, "/>\n");
}

std::string Label(double x, double y, const char* anchor, const std::string& text) {
  return StrCat("<text x=\"", Number(x), "\" y=\"", Number(y), "\" text-anchor=\"", anchor, "\">", text,
                "</text>\n");
}

std::string Begin(const std::string& title) {
  std::string out =
      StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", Number(kLeft + kWide + kLegend), " ",
             Number(kTop + kHigh + 60), "\" font-family=\"sans-serif\" font-size=\"12\">\n",
             "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
  out += StrCat("<title>", XmlText(title), "</title>\n");
  return out + StrCat("<text x=\"", Number(kLeft), "\" y=\"24\" font-size=\"14\">", XmlText(title), "</text>\n");
}

}  // namespace

std::string PlotCounts(const std::string& title, const std::vector<PlotCount>& counts, uint32_t marked) {
  double time = 0, hours = 0, widest = 1;
  for (const PlotCount& count : counts) {
    time = std::max(time, count.seconds * 1.05);
    hours = std::max(hours, count.core_hours * 1.05);
    widest = std::max(widest, std::log2(count.nodes));
  }
  const auto x = [&](uint32_t nodes) { return kLeft + kWide * std::log2(nodes) / widest; };
  const auto y = [&](double value, double most) { return kTop + kHigh * (1 - value / std::max(most, 1e-9)); };
  std::string out = Begin(title), times, costs;
  for (double v = 0; v <= time; v += TickStep(time, 6)) {
    out += Line(kLeft, y(v, time), kLeft + kWide, y(v, time), "stroke=\"#ddd\"");
    out += Label(kLeft - 6, y(v, time) + 4, "end", TickText(v));
  }
  for (double v = 0; v <= hours; v += TickStep(hours, 6)) {
    out += Label(kLeft + kWide + 6, y(v, hours) + 4, "start", TickText(v));
  }
  for (const PlotCount& count : counts) {
    times += StrCat(Number(x(count.nodes)), ",", Number(y(count.seconds, time)), " ");
    costs += StrCat(Number(x(count.nodes)), ",", Number(y(count.core_hours, hours)), " ");
    if (std::has_single_bit(count.nodes) || count.nodes == marked) {
      out += Label(x(count.nodes), kTop + kHigh + (count.nodes == marked ? 32 : 18), "middle", TickText(count.nodes));
    }
  }
  out += Line(x(marked), kTop, x(marked), kTop + kHigh, "stroke=\"#444\" stroke-dasharray=\"5 4\"");
  const auto curve = [&](const std::string& points, const char* colour, double row, const char* name) {
    out += StrCat("<polyline fill=\"none\" stroke-width=\"2\" stroke=\"", colour, "\" points=\"", points, "\"/>\n");
    out += StrCat("<rect x=\"", Number(kLeft + kWide + 60), "\" y=\"", Number(row), "\" width=\"12\" height=\"12\" fill=\"",
                  colour, "\"/>\n");
    out += Label(kLeft + kWide + 78, row + 10, "start", name);
  };
  curve(times, kColours[0], kTop + 10, "seconds (left)");
  curve(costs, kColours[6], kTop + 28, "core-hours (right)");
  out += Line(kLeft, kTop + kHigh, kLeft + kWide, kTop + kHigh, "stroke=\"#444\"");
  return out + Label(kLeft + kWide / 2, kTop + kHigh + 50, "middle", "nodes") + "</svg>\n";
}

std::string PlotSvg(const Plot& plot) {
  double span = 0, slots = 0;
  for (const PlotSession& session : plot.sessions) {
    span += session.length;
    slots = std::max(slots, session.slots);
  }
  span = std::max(span, 1e-6);
  std::vector<Series> series = MakeSeries(plot, span);
  double most = slots;
  for (size_t bin = 0; bin < kBins; ++bin) {
    double sum = 0;
    for (const Series& s : series) sum += s.height[bin];
    most = std::max(most, sum);
  }
  most = std::max(most * 1.05, 1.0);
  const auto x = [&](double bin) { return kLeft + kWide * bin / kBins; };
  const auto y = [&](double cores) { return kTop + kHigh * (1 - cores / most); };

  std::string out = Begin(plot.title);
  const double step_y = TickStep(most, 6), step_x = TickStep(span, 8);
  for (double v = 0; v <= most; v += step_y) {
    out += Line(kLeft, y(v), kLeft + kWide, y(v), "stroke=\"#ddd\"");
    out += Label(kLeft - 6, y(v) + 4, "end", TickText(v));
  }
  for (double v = 0; v <= span * 1.0001; v += step_x) {
    out += Line(x(v / span * kBins), kTop + kHigh, x(v / span * kBins), kTop + kHigh + 5, "stroke=\"#444\"");
    out += Label(x(v / span * kBins), kTop + kHigh + 18, "middle", TickText(v));
  }
  // A polygon a kind: along the top of its area to the right, back along the top of the kinds below it.
  std::vector<double> below(kBins, 0.0);
  for (size_t s = 0; s < series.size(); ++s) {
    std::string there, back;
    for (size_t bin = 0; bin < kBins; ++bin) {
      const double top = below[bin] + series[s].height[bin], bottom = below[bin];
      const std::string right = Number(x(static_cast<double>(bin) + 1)),
                        left = Number(x(static_cast<double>(bin)));
      there += StrCat(left, ",", Number(y(top)), " ", right, ",", Number(y(top)), " ");
      back = StrCat(right, ",", Number(y(bottom)), " ", left, ",", Number(y(bottom)), " ") + back;
      below[bin] = top;
    }
    const char* colour = kColours[s % std::size(kColours)];
    out += StrCat("<polygon fill=\"", colour, "\" points=\"", there, back, "\"><title>",
                  XmlText(series[s].name), "</title></polygon>\n");
    const double row =
        kTop + 10 + 18 * static_cast<double>(series.size() - 1 - s);  // as they lie: the last on top
    out += StrCat("<rect x=\"", Number(kLeft + kWide + 16), "\" y=\"", Number(row),
                  "\" width=\"12\" height=\"12\" fill=\"", colour, "\"/>\n");
    out += Label(kLeft + kWide + 34, row + 10, "start", XmlText(series[s].name, kLegendLetters));
  }
  double from = 0;
  for (const PlotSession& session : plot.sessions) {
    const double left = x(from / span * kBins), right = x((from + session.length) / span * kBins);
    if (from > 0) {
      out += Line(left, kTop, left, kTop + kHigh, "stroke=\"#444\" stroke-dasharray=\"2 3\"");
      out += Label(left + 4, kTop + 12, "start", "resumed");
    }
    if (session.slots > 0) {
      out += Line(left, y(session.slots), right, y(session.slots), "stroke=\"#444\" stroke-dasharray=\"5 4\"");
      out += Label(right - 4, y(session.slots) - 4, "end",
                   StrCat(session.slots, session.slots == 1 ? " slot" : " slots"));
    }
    from += session.length;
  }
  out += Line(kLeft, kTop + kHigh, kLeft + kWide, kTop + kHigh, "stroke=\"#444\"");
  out += Line(kLeft, kTop, kLeft, kTop + kHigh, "stroke=\"#444\"");
  out += Label(kLeft + kWide / 2, kTop + kHigh + 40, "middle", "seconds of run time");
  out += StrCat("<text x=\"16\" y=\"", Number(kTop + kHigh / 2),
                "\" text-anchor=\"middle\" transform=\"rotate(-90 16 ", Number(kTop + kHigh / 2),
                ")\">cores in use</text>\n");
  return out + "</svg>\n";
}

std::string PlotSvg(const RunView& run, const std::vector<size_t>& tasks, const std::string& title) {
  Plot plot;
  plot.title = title;
  for (const journal::Session& session : run.sessions())
    plot.sessions.push_back({Seconds(session.length()), static_cast<double>(session.slots)});
  std::unordered_map<std::string_view, size_t> index;
  for (const size_t i : tasks) {
    const auto [at, is_new] = index.try_emplace(run.task(i).kind, plot.series.size());
    if (is_new) plot.series.emplace_back(run.task(i).kind);
    for (const size_t a : run.Attempts(i)) {
      const journal::AttemptRecord& attempt = run.history().attempts[a];
      if (attempt.start_ns <= 0) continue;
      const double cores = run.cores(run.task(i).task);
      plot.intervals.push_back({Seconds(run.TimeInRun(attempt.start_ns)), Seconds(run.TimeInRun(attempt.end_ns)), cores,
                                at->second});
    }
  }
  return PlotSvg(plot);
}

}  // namespace harrow::report
