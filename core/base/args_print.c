/* args_print.c: the help, the manual page and shell completion of a table of options. */
#include "core/base/args_internal.h"

#include <string.h>
#include <unistd.h>

enum { ON_TERMINAL = 80, ELSEWHERE = 100, LEFT = 28, MAN_COLUMNS = 64 };

static int is_long(const char *name) { return name[0] == '-' && name[1] == '-'; }

/* ---- help */

/* The names shown in the help, as "-n, --predict": all of them. */
static void names_of(const struct args_row *r, char *out, size_t cap)
{
    *out = 0;
    for (int k = 0; k < ARGS_NAMES && r->names[k]; k++) {
        const char *before = k ? ", " : is_long(r->names[k]) ? "    " : "";
        size_t n = strlen(out);
        snprintf(out + n, cap - n, "%s%s", before, r->names[k]);
    }
}

/* TEXT from `column` on, its further lines at `indent`; a newline ends a paragraph. */
static void wrap(const char *text, int indent, int column, FILE *f)
{
    const int columns = isatty(fileno(f)) ? ON_TERMINAL : ELSEWHERE;
    while (*text) {
        size_t room = (size_t)(columns - column), n = strcspn(text, "\n");
        if (n > room) {
            for (n = room; n && text[n] != ' '; n--) continue;
            if (!n) n = strcspn(text, " \n");
        }
        fprintf(f, "%.*s\n", (int)n, text);
        text += n;
        text += *text == '\n' ? 1 : strspn(text, " ");
        if (*text) fprintf(f, "%*s", indent, "");
        column = indent;
    }
}

static void help_row(const struct args_row *r, FILE *f)
{
    char left[128];
    names_of(r, left, sizeof left);
    size_t n = strlen(left);
    if (r->arg) n += (size_t)snprintf(left + n, sizeof left - n, " %s", r->arg);
    if (n < LEFT) fprintf(f, "  %-*s", LEFT, left);
    else fprintf(f, "  %s\n%*s", left, LEFT + 2, "");
    wrap(r->help, LEFT + 2, LEFT + 2, f);
}

void args_help(const struct args_program *p, FILE *f)
{
    for (int i = 0; p->usage[i]; i++)
        fprintf(f, "%s %s %s\n", i ? "      " : "usage:", p->name, p->usage[i]);
    if (p->about) {
        fprintf(f, "\n");
        wrap(p->about, 0, 0, f);
    }
    for (int i = 0; i < p->n_rows; i++) {
        const struct args_row *r = &p->rows[i];
        if (!r->help) continue;
        if (r->names[0]) {
            help_row(r, f);
        } else {
            fprintf(f, "\n");
            wrap(r->help, 0, 0, f);
        }
    }
    fprintf(f, "\n");
    if (p->more) wrap(p->more, 0, 0, f);
    fprintf(f, "Exit: %s.\n", p->exits);
}

/* ---- manual page */

/* TEXT as roff shows it: no request at the beginning of a line, no hyphen for a dash; a blank
 * behind `columns` characters becomes the end of a line, 0: none does. */
static void roff_fill(const char *text, int columns, FILE *f)
{
    int at = 0;
    for (; *text; text++) {
        if (!at++ && (*text == '.' || *text == '\'')) fputs("\\&", f);
        if (*text == '-') fputs("\\-", f);
        else if (*text == '\\') fputs("\\e", f);
        else if (*text == '\n') fputs("\n.PP\n", f), at = 0;
        else if (*text == ' ' && columns && at > columns / 2 &&
                 at + (int)strcspn(text + 1, " \n") > columns)
            fputc('\n', f), at = 0;
        else fputc(*text, f);
    }
}

static void roff(const char *text, FILE *f) { roff_fill(text, 0, f); }

static void roff_text(const char *before, const char *text, FILE *f)
{
    fputs(before, f);
    roff_fill(text, MAN_COLUMNS, f);
    fputs("\n", f);
}

static void roff_line(const char *before, const char *text, FILE *f)
{
    fputs(before, f);
    roff(text, f);
    fputs("\n", f);
}

/* All names of the option, its value, its help, and the modes that it belongs to. */
static void man_row(const struct args_program *p, const struct args_row *r, FILE *f)
{
    char list[200];
    fputs(".TP\n", f);
    for (int k = 0; k < ARGS_NAMES && r->names[k]; k++) {
        fputs(k ? ", \\fB" : "\\fB", f);
        roff(r->names[k], f);
        fputs("\\fR", f);
    }
    if (r->arg) {
        fputs(" \\fI", f);
        roff(r->arg, f);
        fputs("\\fR", f);
    }
    roff_text("\n", r->help, f);
    if (!r->modes || r->modes & args_bit(0)) return;
    args_modes_needed(p, r->modes, list, sizeof list);
    roff_line("(Only with ", list, f);
    fputs(")\n", f);
}

void args_man(const struct args_program *p, FILE *f)
{
    fputs(".TH \"", f);
    for (const char *c = p->name; *c; c++) {
        if (*c == '-') fputs("\\-", f);
        else fputc(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c, f);
    }
    fprintf(f, "\" 1 \"%s\" \"opt4gptq-run %s\" \"User Commands\"\n.SH NAME\n", OPT4GPTQ_DATE,
            OPT4GPTQ_VERSION);
    roff(p->name, f);
    roff_line(" \\- ", p->purpose, f);
    fputs(".SH SYNOPSIS\n.nf\n", f);
    for (int i = 0; p->usage[i]; i++) {
        fputs("\\fB", f);
        roff(p->name, f);
        roff_line("\\fR ", p->usage[i], f);
    }
    fputs(".fi\n", f);
    if (p->description) roff_text(".SH DESCRIPTION\n", p->description, f);
    else if (p->about) roff_text(".SH DESCRIPTION\n", p->about, f);
    fputs(".SH OPTIONS\n", f);
    for (int i = 0; i < p->n_rows; i++) {
        const struct args_row *r = &p->rows[i];
        if (r->help && r->names[0]) man_row(p, r, f);
        else if (r->help) roff_line(".SS ", r->help, f);
    }
    if (p->more) roff_text(".SH NOTES\n", p->more, f);
    roff_text(".SH EXIT STATUS\n", p->exits, f);
    if (p->examples) fputs(".SH EXAMPLES\n.nf\n", f);
    for (int i = 0; p->examples && p->examples[i]; i++) {
        roff(p->name, f);
        roff_line(" ", p->examples[i], f);
    }
    if (p->examples) fputs(".fi\n", f);
    if (p->files) roff_text(".SH FILES\n", p->files, f);
    if (p->see_also) roff_text(".SH SEE ALSO\n", p->see_also, f);
}

/* ---- completion */

static void all_names(const struct args_row *r, const char *between, FILE *f)
{
    for (int k = 0; k < ARGS_NAMES && r->names[k]; k++)
        fprintf(f, "%s%s", k ? between : "", r->names[k]);
}

static const char *const *values_of(const struct args_row *r)
{
    return r->allowed ? r->allowed : r->offered;
}

/* The case of an option that takes one of some values, of a list its last element. */
static void bash_values(const struct args_row *r, FILE *f)
{
    const char *const *values = values_of(r);
    const int list = r->kind == ARGS_IS_TEXTS;
    fputs("    ", f);
    all_names(r, "|", f);
    fprintf(f, ")\n        COMPREPLY=($(compgen %s-W \"",
            list ? "-P \"${cur%\"${cur##*,}\"}\" " : "");
    for (int i = 0; values[i]; i++) fprintf(f, "%s%s", i ? " " : "", values[i]);
    fprintf(f, "\" -- \"%s\"))\n        return ;;\n", list ? "${cur##*,}" : "$cur");
}

/* The case of all options that take a file, for which readline completes names of files, or of all
 * others, for which there is nothing to offer. */
static void bash_others(const struct args_program *p, int files, FILE *f)
{
    int n = 0;
    for (int i = 0; i < p->n_rows; i++) {
        const struct args_row *r = &p->rows[i];
        if (!r->arg || values_of(r) || args_is_file(r) != files) continue;
        fputs(n++ ? "|" : "    ", f);
        all_names(r, "|", f);
    }
    if (n)
        fprintf(f, ")\n        %sreturn ;;\n",
                files ? "" : "compopt +o default 2>/dev/null\n        ");
}

void args_completion_bash(const struct args_program *p, FILE *f)
{
    char function[64];
    snprintf(function, sizeof function, "_%s", p->name);
    for (char *c = function; *c; c++)
        if (*c == '-') *c = '_';
    fprintf(f,
            "# bash completion of %s, written by %s --print-completion bash\n"
            "%s()\n{\n"
            "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
            "    # the shell takes --option=value for three words\n"
            "    if [[ $cur == = ]]; then cur=\n"
            "    elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}\n"
            "    fi\n"
            "    COMPREPLY=()\n"
            "    case $prev in\n",
            p->name, p->name, function);
    for (int i = 0; i < p->n_rows; i++)
        if (values_of(&p->rows[i])) bash_values(&p->rows[i], f);
    bash_others(p, 1, f);
    bash_others(p, 0, f);
    fprintf(f, "    esac\n    case $cur in\n    %s)\n        COMPREPLY=($(compgen -W \"",
            p->n_words ? "-*" : "-*|''");
    for (int i = 0, n = 0; i < p->n_rows; i++) {
        if (!p->rows[i].names[0] || !p->rows[i].help) continue;
        fputs(n++ ? "\n            " : "", f);
        all_names(&p->rows[i], " ", f);
    }
    fprintf(f, "\" -- \"$cur\")) ;;\n    esac\n}\ncomplete -o default -F %s %s\n", function,
            p->name);
}

/* Within quotes and brackets of a specification of zsh's _arguments. */
static void zsh_text(const char *text, FILE *f)
{
    for (; *text; text++)
        if (*text == '\'') fputs("'\\''", f);
        else if (*text == '\n') fputc(' ', f);
        else if (strchr("[]:\\", *text)) fprintf(f, "\\%c", *text);
        else fputc(*text, f);
}

static void zsh_value(const struct args_row *r, FILE *f)
{
    const char *const *values = values_of(r);
    const int list = r->kind == ARGS_IS_TEXTS;
    fputc(':', f);
    zsh_text(r->arg, f);
    fputc(':', f);
    if (args_is_file(r)) fputs("_files", f);
    else if (!values) fputc(' ', f);
    if (!values) return;
    fputs(list ? "_values -s , value" : "(", f);
    for (int i = 0; values[i]; i++) fprintf(f, "%s%s", i || list ? " " : "", values[i]);
    if (!list) fputc(')', f);
}

/* One specification for each name: a value is the next word, behind a long name also "=". */
static void zsh_row(const struct args_row *r, FILE *f)
{
    const int again = r->kind >= ARGS_IS_STRINGS;
    for (int k = 0; k < ARGS_NAMES && r->names[k]; k++) {
        fprintf(f, " \\\n    '%s%s%s[", again ? "*" : "", r->names[k],
                r->arg && is_long(r->names[k]) ? "=" : "");
        zsh_text(r->help, f);
        fputc(']', f);
        if (r->arg) zsh_value(r, f);
        fputc('\'', f);
    }
}

void args_completion_zsh(const struct args_program *p, FILE *f)
{
    fprintf(f,
            "#compdef %s\n# zsh completion of %s, written by %s --print-completion zsh\n"
            "_arguments -S",
            p->name, p->name, p->name);
    for (int i = 0; i < p->n_rows; i++)
        if (p->rows[i].names[0] && p->rows[i].help) zsh_row(&p->rows[i], f);
    fputs(p->n_words ? " \\\n    '*:file:_files'\n" : "\n", f);
}

const char *args_commit(void) { return OPT4GPTQ_COMMIT; }

void args_version(const struct args_program *p, FILE *f)
{
    fprintf(f, "%s %s\ncommit %s of %s, compiler %s\n", p->name, OPT4GPTQ_VERSION, OPT4GPTQ_COMMIT,
            OPT4GPTQ_DATE, __VERSION__);
}

int args_asks(const struct args_common *c)
{
    return c->help || c->version || c->man || c->completion;
}

int args_print(const struct args_program *p, const struct args_common *c, FILE *f)
{
    if (c->help) args_help(p, f);
    else if (c->man) args_man(p, f);
    else if (c->completion && !strcmp(c->completion, "zsh")) args_completion_zsh(p, f);
    else if (c->completion) args_completion_bash(p, f);
    else return 0;
    return 1;
}
