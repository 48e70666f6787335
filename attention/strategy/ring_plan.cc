#include "attention/strategy/ring_plan.h"

#include <algorithm>
#include <functional>

#include <c10/util/Exception.h>

namespace moonring::attention {
namespace {

class RingPlanner {
 public:
  RingPlanner(const comm::Layout& layout, int place, int window, const TileOptions& options)
      : layout_(layout),
        places_(layout.division().contexts),
        place_(place),
        window_(window),
        options_(options) {
    TORCH_CHECK(window >= 1 && places_ % window == 0, "ring: windows of ", window,
                " places do not divide ", places_);
  }

  ContextPlan PlanTraffic() {
    ContextPlan plan;
    plan.steps.push_back({.own = true});
    const auto add = [&](int to, const std::vector<KeySegment>& sent, int from,
                         const std::vector<KeySegment>& received) {
      if (sent.empty() && received.empty()) return;
      plan.steps.push_back({.send = Moves(to, sent), .receive = Moves(from, received)});
    };
    for (int outer = 0; outer < places_ / window_; ++outer) {
      if (outer > 0) {
        const int from = Shifted(place_, -outer, 0), to = Shifted(place_, outer, 0);
        add(to, HeldBy(to, outer), from, HeldBy(place_, outer));
      }
      const std::vector<KeySegment> mine = Kept(place_, outer);
      for (int inner = 1; inner < window_; ++inner) {
        const int from = Shifted(place_, 0, -inner), to = Shifted(place_, 0, inner);
        add(to, Seen(mine, to), from, Seen(Kept(from, outer), place_));
      }
    }
    return plan;
  }

  ContextPlan Plan() {
    ContextPlan plan;
    plan.steps.push_back({.own = true, .tiles = Tiles(All(place_))});
    for (int outer = 0; outer < places_ / window_; ++outer) {
      int source = 0;
      if (outer > 0) {
        const auto held = [&](int holder) { return HeldBy(holder, outer); };
        if (!AnyOf([&](int holder) { return !held(holder).empty(); })) continue;
        source = static_cast<int>(plan.steps.size());
        const int from = Shifted(place_, -outer, 0), to = Shifted(place_, outer, 0);
        plan.steps.push_back({.source = 0,
                              .lead = window_,
                              .send = Moves(to, held(to)),
                              .receive = Moves(from, Packed(held(place_))),
                              .tiles = Tiles(Seen(Packed(held(place_)), place_))});
        plan.steps.back().tiles.key_rows = RowsIn(held(place_));
      }
      for (int inner = 1; inner < window_; ++inner) {
        // The keys that a rank sends in this step, with their rows in its buffer.
        const auto sent = [&](int holder) {
          return Seen(Kept(holder, outer), Shifted(holder, 0, inner));
        };
        if (!AnyOf([&](int holder) { return !sent(holder).empty(); })) continue;
        const int from = Shifted(place_, 0, -inner), to = Shifted(place_, 0, inner);
        const std::vector<KeySegment> received = Packed(sent(from));
        plan.steps.push_back({.source = source,
                              .send = Moves(to, sent(place_)),
                              .receive = Moves(from, received),
                              .tiles = Tiles(received)});
      }
    }
    return plan;
  }

 private:
  // The context rank that is `outer` windows after that of `place` (modulo the number of windows),
  // at the index `inner` after that of `place` within its window (modulo the window's size).
  int Shifted(int place, int outer, int inner) const {
    const int windows = places_ / window_;
    return (place / window_ + outer + windows) % windows * window_ +
           (place % window_ + inner + window_) % window_;
  }

  // All rows that a context rank owns.
  std::vector<KeySegment> All(int place) const {
    std::vector<KeySegment> segments;
    for (const comm::Span& span : layout_.context_spans(place)) segments.push_back({span});
    return Packed(std::move(segments));
  }

  // The keys that context rank `holder` sends within its window: its own (outer = 0), or those that
  // it received from the window `outer` windows before.
  std::vector<KeySegment> Kept(int holder, int outer) const {
    return outer == 0 ? All(holder) : Packed(HeldBy(holder, outer));
  }

  // Assigns consecutive rows of a buffer to the segments.
  static std::vector<KeySegment> Packed(std::vector<KeySegment> segments) {
    int64_t row = 0;
    for (KeySegment& segment : segments) {
      segment.row = row;
      row += segment.tokens.tokens();
    }
    return segments;
  }

  // Returns those tokens of the segments `keys` that queries of context rank `reader` attend to.
  // Each has its row in the buffer in which the segments `keys` are stored one after another.
  std::vector<KeySegment> Seen(const std::vector<KeySegment>& keys, int reader) const {
    return SeenTokens(SpansOf(keys), layout_.context_spans(reader), options_);
  }

  // The keys that `holder` receives from the window `outer` windows before its own: the rows of the
  // owner that any rank of holder's window attends to.
  std::vector<KeySegment> HeldBy(int holder, int outer) const {
    std::vector<comm::Span> readers;
    for (int number = 0; number < window_; ++number) {
      const std::vector<comm::Span>& spans =
          layout_.context_spans(holder / window_ * window_ + number);
      readers.insert(readers.end(), spans.begin(), spans.end());
    }
    std::sort(readers.begin(), readers.end(), [](const comm::Span& a, const comm::Span& b) {
      return std::pair(a.document, a.begin) < std::pair(b.document, b.begin);
    });
    return SeenTokens(layout_.context_spans(Shifted(holder, -outer, 0)), readers, options_);
  }

  TilePlan Tiles(const std::vector<KeySegment>& keys) const {
    return PlanTiles(layout_.lengths(), layout_.context_spans(place_), keys, options_);
  }

  static std::vector<KeyMove> Moves(int place, const std::vector<KeySegment>& segments) {
    if (segments.empty()) return {};
    return {{place, RowsOf(segments)}};
  }

  static int64_t RowsIn(const std::vector<KeySegment>& segments) {
    int64_t rows = 0;
    for (const KeySegment& segment : segments) rows += segment.tokens.tokens();
    return rows;
  }

  static std::vector<comm::Span> SpansOf(const std::vector<KeySegment>& segments) {
    std::vector<comm::Span> spans;
    for (const KeySegment& segment : segments) spans.push_back(segment.tokens);
    return spans;
  }

  bool AnyOf(const std::function<bool(int)>& holds) const {
    for (int place = 0; place < places_; ++place) {
      if (holds(place)) return true;
    }
    return false;
  }

  const comm::Layout& layout_;
  int places_, place_, window_;
  TileOptions options_;
};

}  // namespace

ContextPlan RingTransport::Plan(const comm::Layout& layout, int place,
                                const TileOptions& options) const {
  return RingPlanner(layout, place, ranks_per_window(layout.division().contexts), options).Plan();
}

ContextPlan RingTransport::PlanTraffic(const comm::Layout& layout, int place,
                                       int64_t window) const {
  return RingPlanner(layout, place, ranks_per_window(layout.division().contexts),
                     {.window = window})
      .PlanTraffic();
}

}  // namespace moonring::attention
