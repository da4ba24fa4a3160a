#include "bench/hash/rmat.h"

#include <numeric>

#include "base/assert.h"
#include "base/parallel.h"
#include "bench/hash/chooser.h"
#include "bench/key_choice.h"

namespace breccia::bench::tables {

namespace {

struct Edge {
  std::uint32_t from;
  std::uint32_t to;
};

Edge draw_edge(int scale, base::Random& random) {
  constexpr double kA = 0.57, kB = 0.19, kC = 0.19;
  Edge edge{0, 0};
  for (int bit = 0; bit < scale; ++bit) {
    const double u = random.unit();
    const bool is_lower = u >= kA + kB;                            // c or d
    const bool is_right = is_lower ? u >= kA + kB + kC : u >= kA;  // b or d
    edge.from = edge.from << 1 | (is_lower ? 1 : 0);
    edge.to = edge.to << 1 | (is_right ? 1 : 0);
  }
  return edge;
}

}  // namespace

Graph make_rmat(int scale, std::uint32_t edges_a_vertex, std::uint64_t seed) {
  BRECCIA_ASSERT(scale >= 1 && scale <= 31);
  const std::uint64_t vertices = std::uint64_t{1} << scale;
  const Permutation names(vertices, seed);
  std::vector<Edge> edges(vertices * edges_a_vertex);
  for_random(edges.size(), seed, [&](base::Random& random, std::uint64_t i) {
    const Edge edge = draw_edge(scale, random);
    edges[i] = {static_cast<std::uint32_t>(names.at(edge.from)),
                static_cast<std::uint32_t>(names.at(edge.to))};
  });
  Graph graph;
  graph.degrees.resize(vertices);
  graph.begin.resize(vertices + 1);
  graph.sources.resize(edges.size());
  // Into which place an edge goes depends on those before it, so this is one thread's: the sums of
  // floating-point numbers come in an order that the seed says.
  for (const Edge& edge : edges) {
    ++graph.degrees[edge.from];
    ++graph.begin[edge.to + 1];
  }
  std::partial_sum(graph.begin.begin(), graph.begin.end(), graph.begin.begin());
  std::vector<std::uint64_t> next(graph.begin.begin(), graph.begin.end() - 1);
  for (const Edge& edge : edges) graph.sources[next[edge.to]++] = edge.from;
  return graph;
}

std::vector<double> page_rank(const Graph& graph, std::uint32_t iterations) {
  const std::uint64_t n = graph.vertices();
  const auto count = static_cast<double>(n);
  std::vector<double> ranks(n, 1 / count);
  for (std::uint32_t iteration = 0; iteration < iterations; ++iteration) {
    double kept = 0;  // by vertices without an edge out
    for (std::uint64_t v = 0; v < n; ++v) kept += graph.degrees[v] == 0 ? ranks[v] : 0;
    std::vector<double> next(n);
    base::parallel_for(std::uint64_t{0}, n, [&](std::uint64_t v) {
      double sum = 0;
      for (std::uint64_t e = graph.begin[v]; e < graph.begin[v + 1]; ++e) {
        sum += ranks[graph.sources[e]] / graph.degrees[graph.sources[e]];
      }
      next[v] = (1 - kDamping) / count + kDamping * (sum + kept / count);
    });
    ranks = std::move(next);
  }
  return ranks;
}

}  // namespace breccia::bench::tables
