#include "backend-hip/runtime/hip_stream.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPHS_OF_PLAN = 64, MAX_GRAPHS = 1024, SEEN_OF_GRAPH = 4, MIN_GRAPH = 8 };

/* A graph begins when the runtime has been through all of its launches, about 0.75 us each on an
 * H200's host. An idle device would wait for that, so a step for it is GRAPH_PARTS graphs, the
 * first of FIRST_PART launches, each further one PART_GROWTH times as long: its way through the
 * runtime is over before the one ahead of it has been computed. Behind another step it is one
 * graph, because the launches of two do not overlap. */
enum { GRAPH_PARTS = 3, FIRST_PART = 16, PART_GROWTH = 6 };

struct call {
    void *function;
    const char *name;
    unsigned grid[3], threads, shared, cluster;
    int apart;
    uint32_t at, bytes; /* in args */
};

struct calls {
    int n, cap;
    size_t n_args, cap_args;
    struct call *call;
    char *args;
};

struct graph {
    void *exec[GRAPH_PARTS]; /* one behind the other, NULL: none; the first NULL: free */
    uint64_t used;
    size_t key_bytes;
    char key[HIP_KEY_BYTES];
};

struct hip_stream {
    const struct hip_device *device;
    void *stream; /* NULL: the default one */
    int has_graphs;
    int multiprocessors, overlaps;
    struct calls now;
    struct graph *graph; /* [n_graphs] */
    int n_graphs;
    uint64_t n_issued, *seen, n_seen; /* hashes of recent keys [n_graphs * SEEN_OF_GRAPH] */
};

/* The runtime's stream; NULL: the one that every device has. */
static int open_runtimes(struct hip_stream *s, enum hip_stream_of which)
{
    const struct hip_api *api = &s->device->library->api;
    if (which == STREAM_COMMON) return 0;
    if (s->device->library->is_cuda) return api->cuda_stream(&s->stream, 0);
    return which == STREAM_OWN ? api->stream_open(&s->stream, 0) : 0;
}

int hip_stream_open(struct hip_stream **out, const struct hip_device *d, enum hip_stream_of which,
                    struct err *e)
{
    struct hip_stream *s = calloc(1, sizeof *s);
    const struct hip_api *api = &d->library->api;
    char text[160];
    if (!s) return err_memory(e);
    s->device = d;
    int code = open_runtimes(s, which);
    if (d->library->is_cuda) {
        if (!code)
            code = api->cuda_attribute(&s->multiprocessors, CUDA_ATTRIBUTE_MULTIPROCESSORS,
                                       d->handle);
        s->has_graphs = which != STREAM_COMMON;
        s->overlaps = api->cuda_launch_ex && !strcmp(d->image, "sm_90a");
    }
    if (code) {
        free(s);
        return err_set(e, "%s: %s", d->name, hip_error_text(d->library, code, text, sizeof text));
    }
    *out = s;
    return 0;
}

int hip_stream_reserve(struct hip_stream *s, int n_plans)
{
    int n = n_plans < MAX_GRAPHS / GRAPHS_OF_PLAN ? n_plans * GRAPHS_OF_PLAN : MAX_GRAPHS;
    if (n <= s->n_graphs) return 0;
    struct graph *graph = realloc(s->graph, (size_t)n * sizeof *graph);
    if (!graph) return -1;
    s->graph = graph;
    uint64_t *seen = realloc(s->seen, (size_t)n * SEEN_OF_GRAPH * sizeof *seen);
    if (!seen) return -1;
    s->seen = seen;
    memset(graph + s->n_graphs, 0, (size_t)(n - s->n_graphs) * sizeof *graph);
    memset(seen + s->n_graphs * SEEN_OF_GRAPH, 0,
           (size_t)(n - s->n_graphs) * SEEN_OF_GRAPH * sizeof *seen);
    s->n_graphs = n;
    return 0;
}

static void free_calls(struct calls *c)
{
    free(c->call);
    free(c->args);
    memset(c, 0, sizeof *c);
}

static void drop_graph(struct hip_stream *s, struct graph *g)
{
    for (int i = 0; i < GRAPH_PARTS; i++)
        if (g->exec[i] && !s->device->hung)
            s->device->library->api.cuda_graph_exec_drop(g->exec[i]);
    memset(g, 0, sizeof *g);
}

void hip_stream_close(struct hip_stream *s)
{
    if (!s) return;
    for (int i = 0; i < s->n_graphs; i++) drop_graph(s, &s->graph[i]);
    free_calls(&s->now);
    free(s->graph);
    free(s->seen);
    free(s); /* the stream itself stays open, like library and device */
}

void *hip_stream_handle(const struct hip_stream *s) { return s->stream; }

int hip_stream_multiprocessors(const struct hip_stream *s) { return s->multiprocessors; }

int hip_stream_has_clusters(const struct hip_stream *s) { return s->overlaps; }

/* Arguments begin at multiples of 16, with zeros between them. */
int hip_stream_add(struct hip_stream *s, const struct launch *l)
{
    struct calls *c = &s->now;
    size_t whole = (l->bytes + 15) / 16 * 16;
    if (c->n == c->cap) {
        int cap = c->cap ? 2 * c->cap : 256;
        struct call *p = realloc(c->call, (size_t)cap * sizeof *p);
        if (!p) return -1;
        c->call = p;
        c->cap = cap;
    }
    if (c->n_args + whole > c->cap_args) {
        size_t cap = 2 * (c->cap_args + whole);
        char *p = realloc(c->args, cap);
        if (!p) return -1;
        c->args = p;
        c->cap_args = cap;
    }
    struct call *k = &c->call[c->n++];
    memset(k, 0, sizeof *k);
    k->function = l->function;
    k->name = l->name;
    memcpy(k->grid, l->grid, sizeof k->grid);
    k->threads = l->threads;
    k->shared = l->shared;
    k->cluster = l->cluster;
    k->apart = l->apart;
    k->at = (uint32_t)c->n_args;
    k->bytes = (uint32_t)l->bytes;
    memset(c->args + c->n_args + whole - 16, 0, 16);
    memcpy(c->args + c->n_args, l->args, l->bytes);
    c->n_args += whole;
    return 0;
}

/* Issues launches first .. end - 1 of those added. */
static int issue(struct hip_stream *s, int first, int end, const char **name)
{
    const struct hip_library *l = s->device->library;
    for (int i = first; i < end; i++) {
        const struct call *k = &s->now.call[i];
        size_t bytes = k->bytes;
        void *extra[] = {HIP_LAUNCH_BUFFER, s->now.args + k->at, HIP_LAUNCH_BYTES, &bytes,
                         l->is_cuda ? CUDA_LAUNCH_END : HIP_LAUNCH_END};
        int code;
        *name = k->name;
        if (s->overlaps) { /* the first launch must wait for copies, too */
            struct cuda_launch_attribute attribute[] = {
                {.id = CUDA_LAUNCH_OVERLAPS,
                 .value.allowed = i > first && !k->apart && !k[-1].apart},
                {.id = CUDA_LAUNCH_CLUSTER, .value.cluster = {k->cluster, 1, 1}}};
            const struct cuda_launch_config config = {{k->grid[0], k->grid[1], k->grid[2]},
                                                      {k->threads, 1, 1},
                                                      k->shared,
                                                      s->stream,
                                                      attribute,
                                                      k->cluster > 1 ? 2 : 1};
            code = l->api.cuda_launch_ex(&config, k->function, NULL, extra);
        } else {
            code = l->api.launch(k->function, k->grid[0], k->grid[1], k->grid[2], k->threads, 1, 1,
                                 k->shared, s->stream, NULL, extra);
        }
        if (code) return code;
    }
    return 0;
}

static uint64_t hash_of(const void *key, size_t bytes)
{
    uint64_t h = 0xcbf29ce484222325u;
    const unsigned char *p = key;
    for (size_t i = 0; i < bytes; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static int launch_graph(struct hip_stream *s, struct graph *g)
{
    int code = 0;
    g->used = ++s->n_issued;
    for (int i = 0; i < GRAPH_PARTS && g->exec[i] && !code; i++)
        code = s->device->library->api.cuda_graph_launch(g->exec[i], s->stream);
    return code;
}

int hip_stream_replay(struct hip_stream *s, const void *key, size_t bytes, int *replayed)
{
    *replayed = 0;
    for (int i = 0; i < s->n_graphs; i++) {
        struct graph *g = &s->graph[i];
        if (!g->exec[0] || g->key_bytes != bytes || memcmp(g->key, key, bytes)) continue;
        *replayed = 1;
        return launch_graph(s, g);
    }
    return 0;
}

/* Captures launches first .. end - 1 of those added as a graph. */
static int capture(struct hip_stream *s, int first, int end, void **exec, const char **name)
{
    const struct hip_api *api = &s->device->library->api;
    void *captured = NULL;
    int code = api->cuda_capture(s->stream, CUDA_CAPTURE_THREAD_LOCAL);
    *name = "a graph of a step";
    if (code) return code;
    code = issue(s, first, end, name);
    int ended = api->cuda_capture_end(s->stream, &captured);
    if (!code) code = ended;
    if (!code) code = api->cuda_graph_make(exec, captured, 0);
    if (captured) api->cuda_graph_drop(captured);
    return code;
}

/* Captures the added launches as graphs; they replace the least recently used ones. */
static int make_graph(struct hip_stream *s, const void *key, size_t bytes, int idle,
                      struct graph **out, const char **name)
{
    struct graph *g = &s->graph[0];
    int code = 0, n = s->now.n, parts = idle ? GRAPH_PARTS : 1;
    for (int i = 1; i < s->n_graphs; i++)
        if (s->graph[i].used < g->used) g = &s->graph[i];
    drop_graph(s, g);
    for (int i = 0, first = 0, length = FIRST_PART; first < n && !code; i++) {
        int end = i + 1 == parts || n - first < 2 * length ? n : first + length;
        code = capture(s, first, end, &g->exec[i], name);
        first = end;
        length *= PART_GROWTH;
    }
    memcpy(g->key, key, bytes);
    g->key_bytes = bytes;
    *out = g;
    return code;
}

int hip_stream_issue(struct hip_stream *s, const void *key, size_t bytes, int idle,
                     const char **name)
{
    struct graph *g = NULL;
    int code = 0, came_before = 0;
    *name = "";
    if (!s->now.n) return 0;
    CHECK(bytes <= HIP_KEY_BYTES);
    if (s->has_graphs && bytes && s->now.n >= MIN_GRAPH && s->n_graphs) {
        uint64_t hash = hash_of(key, bytes);
        for (int i = 0; i < s->n_graphs * SEEN_OF_GRAPH; i++) came_before |= s->seen[i] == hash;
        s->seen[s->n_seen++ % (uint64_t)(s->n_graphs * SEEN_OF_GRAPH)] = hash;
        if (came_before) code = make_graph(s, key, bytes, idle, &g, name);
    }
    if (!code && g) {
        *name = "a step";
        code = launch_graph(s, g);
    } else if (!code) {
        code = issue(s, 0, s->now.n, name);
    }
    s->now.n = 0;
    s->now.n_args = 0;
    return code;
}
