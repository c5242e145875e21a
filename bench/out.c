#include "bench/out.h"

#include "core/base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void out_open(struct out *o, const char *format) { *o = (struct out){.format = format}; }

int out_is_md(const struct out *o) { return !strcmp(o->format, "md"); }

static void csv_line(const json_t *record, int heading)
{
    const char *key, *comma = "";
    json_t *value;
    json_object_foreach ((json_t *)record, key, value) {
        if (json_is_array(value)) continue; /* the samples; llama-bench leaves them out, too */
        char *text = heading || json_is_string(value)
                         ? NULL
                         : json_dumps(value,
                                      JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
        printf("%s\"", comma);
        for (const char *s = heading ? key : text ? text : json_string_value(value); s && *s; s++)
            printf(*s == '"' ? "\"\"" : "%c", *s);
        printf("\"");
        free(text);
        comma = ",";
    }
    printf("\n");
}

int out_record(struct out *o, json_t *record, struct err *e)
{
    if (!record || json_check(e)) {
        json_decref(record);
        return err_memory(e);
    }
    if (!strcmp(o->format, "csv")) {
        if (!o->n_records) csv_line(record, 1);
        csv_line(record, 0);
    } else if (!out_is_md(o)) {
        int list = !strcmp(o->format, "json");
        if (list && !o->is_alone) printf(o->n_records ? ",\n" : "[\n");
        json_dumpf(record, stdout, (list ? JSON_INDENT(2) : 0) | JSON_REAL_PRECISION(9));
        if (!list || o->is_alone) printf("\n");
    }
    fflush(stdout);
    o->n_records++;
    json_decref(record);
    return json_check(e);
}

int out_row(struct out *o, struct err *e)
{
    void *more = realloc(o->cells, (size_t)(o->n_rows + 1) * sizeof *o->cells);
    if (!more) return err_memory(e);
    o->cells = more;
    memset(o->cells[o->n_rows++], 0, sizeof *o->cells);
    return 0;
}

int out_table(struct out *o, int n_columns, const char *const heading[], struct err *e)
{
    CHECK(n_columns <= OUT_COLUMNS);
    o->n_columns = n_columns;
    o->n_rows = 0;
    if (out_row(o, e)) return -1;
    for (int i = 0; i < n_columns; i++) out_cell(o, i, "%s", heading[i]);
    return 0;
}

void out_cell(struct out *o, int column, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(o->cells[o->n_rows - 1][column], OUT_CELL, fmt, ap);
    va_end(ap);
}

/* Columns on a terminal, not bytes: UTF-8 continuation bytes take none. */
static int width(const char *s)
{
    int n = 0;
    for (; *s; s++) n += (*s & 0xc0) != 0x80;
    return n;
}

void out_print(struct out *o, const int *hide)
{
    int wide[OUT_COLUMNS] = {0}, left[OUT_COLUMNS] = {0};
    for (int c = 0; c < o->n_columns; c++) {
        char *head = o->cells[0][c];
        size_t n = strlen(head);
        left[c] = n && head[n - 1] == ':';
        if (left[c]) head[n - 1] = 0;
        for (int r = 0; r < o->n_rows; r++)
            if (width(o->cells[r][c]) > wide[c]) wide[c] = width(o->cells[r][c]);
        if (wide[c] < 2) wide[c] = 2;
    }
    for (int r = 0; r < o->n_rows; r++) {
        for (int c = 0; c < o->n_columns; c++) {
            if (hide && hide[c]) continue;
            int pad = wide[c] - width(o->cells[r][c]);
            printf("| %*s%s%*s ", left[c] ? 0 : pad, "", o->cells[r][c], left[c] ? pad : 0, "");
        }
        printf("|\n");
        for (int c = 0; r == 0 && c < o->n_columns; c++)
            if (!hide || !hide[c]) {
                printf("|%s", left[c] ? "-" : "");
                for (int i = 0; i < wide[c] + 1; i++) printf("-");
                printf("%s", left[c] ? "" : ":");
            }
        if (r == 0) printf("|\n");
    }
    free(o->cells);
    o->cells = NULL;
    o->n_rows = 0;
}

int out_close(struct out *o, struct err *e)
{
    free(o->cells);
    o->cells = NULL;
    if (!strcmp(o->format, "json") && !o->is_alone) printf(o->n_records ? "\n]\n" : "[]\n");
    if (fflush(stdout) || ferror(stdout)) return err_sys(e, "stdout");
    return 0;
}
