#include "core/grammar/free_text.h"

#include "core/grammar/chars.h"

#include <string.h>

size_t free_text_special(const char *text, size_t bytes, const json_t *special)
{
    size_t longest = 0, i;
    json_t *v;
    json_array_foreach ((json_t *)(uintptr_t)special, i, v) {
        size_t n = json_string_length(v);
        if (n > longest && n <= bytes && !memcmp(text, json_string_value(v), n)) longest = n;
    }
    return longest;
}

net_expr free_text_fixed(struct net *n, const char *text, size_t bytes, const json_t *special)
{
    net_expr x = net_empty(n), mark;
    while (bytes) {
        size_t token = free_text_special(text, bytes, special), step = token ? token : 1;
        mark = token ? net_text(n, FREE_TEXT_MARK, 1) : net_empty(n);
        x = net_sequence(n, net_sequence(n, x, mark), net_text(n, text, step));
        x = net_sequence(n, x, mark);
        text += step;
        bytes -= step;
    }
    return x;
}

/* A character other than A and B, and not NUL; B 0: than A. */
static net_expr other(struct net *n, uint32_t a, uint32_t b)
{
    uint32_t low = b && b < a ? b : a, high = b > a ? b : a;
    struct net_range r[3] = {{1, low - 1}, {low + 1, high - 1}, {high + 1, CHARS_LAST}};
    if (low == high) r[1] = r[2];
    return net_chars(n, r, low == high ? 2 : 3);
}

static net_expr one(struct net *n, uint32_t c)
{
    return net_chars(n, &(struct net_range){c, c}, 1);
}

/* Of a marker m[0] m[1] .. m[count - 1]: its beginnings, which more text may follow that is not the
 * rest. */
struct beginnings {
    net_expr any; /* one of them */
    net_expr end; /* one of them, and a character that neither goes on with it nor begins it */
};

static struct beginnings beginnings_of(struct net *n, const uint32_t *m, int count)
{
    struct beginnings x = {net_empty(n), other(n, m[count - 1], m[0])};
    for (int k = count - 1; k-- > 1;) {
        x.any = net_repeat(n, net_sequence(n, one(n, m[k]), x.any), 0, 1);
        x.end = net_either(n, other(n, m[k], m[0]), net_sequence(n, one(n, m[k]), x.end));
    }
    x.any = net_sequence(n, one(n, m[0]), x.any);
    x.end = net_sequence(n, one(n, m[0]), x.end);
    return x;
}

net_expr free_text_without(struct net *n, const char *marker, size_t bytes, const json_t *special)
{
    static const struct net_range all = {1, CHARS_LAST};
    enum { MAX_MARKER = 64 };
    struct chars t = {marker, marker, marker + bytes};
    uint32_t m[MAX_MARKER] = {0};
    int count = 0;
    if (!bytes || free_text_special(marker, bytes, special))
        return net_repeat(n, net_chars(n, &all, 1), 0, NET_NO_LIMIT);
    while (t.p < t.end && count < MAX_MARKER) m[count++] = chars_next(&t);
    if (count == 1) return net_repeat(n, other(n, m[0], 0), 0, NET_NO_LIMIT);
    struct beginnings b = beginnings_of(n, m, count);
    net_expr some = net_repeat(n, b.any, 0, NET_NO_LIMIT);
    net_expr x = net_either(n, other(n, m[0], 0), net_sequence(n, some, b.end));
    return net_sequence(n, net_repeat(n, x, 0, NET_NO_LIMIT), some);
}

net_expr free_text_space(struct net *n)
{
    enum { MOST = 8 };
    static const struct net_range space[] = {{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}};
    return net_repeat(n, net_chars(n, space, 3), 0, MOST);
}
