#include "cli/modes/eval/task_answer.h"

#include "cli/modes/eval/task_text.h"

#include <stdlib.h>
#include <string.h>

static const char mark[] = "#### ";

/* (-?[0-9.,]+) behind a mark */
char *task_answer_strict(const char *text)
{
    for (const char *hit = strstr(text, mark); hit; hit = strstr(hit + 1, mark)) {
        const char *number = hit + strlen(mark);
        int sign = *number == '-';
        size_t n = strspn(number + sign, "0123456789.,");
        if (n) return strndup(number, n + (size_t)sign);
    }
    return strdup("[invalid]");
}

/* Bytes of (-?[$0-9.,]{2,})|(-?[0-9]+) that TEXT begins with; 0: it does not. */
static size_t number_bytes(const char *text)
{
    size_t sign = *text == '-', n = strspn(text + sign, "$0123456789.,");
    if (n >= 2) return sign + n;
    n = strspn(text + sign, "0123456789");
    return n ? sign + n : 0;
}

char *task_answer_flexible(const char *text)
{
    const char *last = "[invalid]";
    size_t n_last = strlen(last), n;
    for (; *text; text += n ? n : 1)
        if ((n = number_bytes(text))) last = text, n_last = n;
    return strndup(last, n_last);
}

/* Deletes what is not compared. */
static char *bare(const char *text)
{
    char *copy = strdup(text), *to = copy;
    if (!copy) return NULL;
    for (const char *from = copy; *from; from++)
        if (*from != ',' && *from != '$') *to++ = *from;
    *to = 0;
    char *begin = copy;
    for (char *hit; (hit = strstr(begin, mark));) begin = hit + strlen(mark);
    size_t n = strlen(begin), stop = n - (n && begin[n - 1] == '\n');
    if (stop && begin[stop - 1] == '.') memmove(begin + stop - 1, begin + stop, n - stop + 1);
    char *lower = task_text_lower(begin);
    free(copy);
    return lower;
}

int task_answer_is(const char *found, const char *answer)
{
    char *a = bare(found), *b = bare(answer);
    int same = a && b ? !strcmp(a, b) : -1;
    free(a);
    free(b);
    return same;
}
