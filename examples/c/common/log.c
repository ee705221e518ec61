/* log.c: see log.h. JSON has no NaN: what was not measured is null there, and empty in CSV. It is printed
 * without a library: an example needs librueda and C alone, so that it can be taken as it is. */
#include "common/log.h"

#include <string.h>

/* Names for people have spaces, those of columns and keys do not. */
static void put_name(FILE *out, const char *name)
{
    for (const char *c = name; *c != '\0'; c++)
        fputc(*c == ' ' ? '_' : *c, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_name(FILE *out, const char *name)
{
    fputs(",\"", out);
    put_name(out, name);
    fputs("\":", out);
}

static void json_value(FILE *out, double value)
{
    if (isfinite(value))
        fprintf(out, "%.6g", value);
    else
        fputs("null", out);
}

static void json_number(FILE *out, const char *name, double value)
{
    json_name(out, name);
    json_value(out, value);
}

static void json_tensors(FILE *out, const subject *about, const char *name, const double *values)
{
    json_name(out, name);
    for (int t = 0; t < about->tensors; t++) {
        fprintf(out, "%s\"%s\":", t > 0 ? "," : "{", about->places[t].name);
        json_value(out, values[t]);
    }
    fputc('}', out);
}

static void json_list(FILE *out, const char *name, const double *values, int count)
{
    json_name(out, name);
    for (int i = 0; i < count; i++) {
        fputc(i > 0 ? ',' : '[', out);
        json_value(out, values[i]);
    }
    fputc(']', out);
}

static void json_step(FILE *out, const subject *about, const step_record *r)
{
    fprintf(out, "{\"event\":\"step\",\"epoch\":%d,\"step\":%d,\"steps\":%d", r->epoch, r->step,
            r->steps);
    json_name(out, about->items);
    fprintf(out, "%.0f", r->items);
    json_number(out, "seconds", r->seconds);
    json_number(out, "rate", r->rate);
    json_number(out, "loss", r->loss);
    if (about->has_accuracy)
        json_number(out, "accuracy", r->accuracy);
    json_number(out, about->test, r->test);
    json_number(out, "orthogonality", r->orthogonality);
    json_tensors(out, about, "tensors", r->tensor);
    fputs("}\n", out);
}

static void json_summary(FILE *out, const subject *about, const run_summary *s)
{
    char rate[64];
    snprintf(rate, sizeof rate, "%s per second", about->items);
    fprintf(out, "{\"event\":\"summary\",\"op\":\"%s\",\"ranks\":%d,\"workers\":%d,\"steps\":%d",
            s->how, s->ranks, s->workers, s->steps);
    fprintf(out, ",\"outcome\":\"%s\"", run_outcome_names[s->outcome]);
    json_number(out, "loss", s->loss);
    json_number(out, "worst loss", s->worst);
    json_list(out, about->test, s->test, s->epochs);
    json_number(out, rate, s->items_per_second);
    json_number(out, "seconds", s->seconds);
    json_number(out, "orthogonality first", s->first);
    json_number(out, "orthogonality last", s->last);
    json_tensors(out, about, "tensors first", s->tensor_first);
    json_tensors(out, about, "tensors last", s->tensor_last);
    fputs("}\n", out);
}

/* ---- CSV ------------------------------------------------------------------------------------- */

static void csv_header(FILE *out, const subject *about)
{
    fprintf(out, "epoch,step,seconds,%s,rate,loss", about->items);
    fputs(about->has_accuracy ? ",accuracy," : ",", out);
    put_name(out, about->test);
    fputs(",orthogonality", out);
    for (int t = 0; t < about->tensors; t++)
        fprintf(out, ",%s", about->places[t].name);
    fputc('\n', out);
}

static void csv_number(FILE *out, double value)
{
    if (isfinite(value))
        fprintf(out, ",%.6g", value);
    else
        fputc(',', out);
}

static void csv_step(FILE *out, const subject *about, const step_record *r)
{
    fprintf(out, "%d,%d,%.6f,%.0f", r->epoch, r->step, r->seconds, r->items);
    csv_number(out, r->rate);
    csv_number(out, r->loss);
    if (about->has_accuracy)
        csv_number(out, r->accuracy);
    csv_number(out, r->test);
    csv_number(out, r->orthogonality);
    for (int t = 0; t < about->tensors; t++)
        csv_number(out, r->tensor[t]);
    fputc('\n', out);
}

/* ---- The log --------------------------------------------------------------------------------- */

bool log_open(log_file *log, const subject *about, const char *path, FILE *events)
{
    *log = (log_file){.about = about, .events = events};
    if (path == NULL)
        return true;
    log->json = strcmp(strrchr(path, '.'), ".json") == 0;
    log->file = fopen(path, "w");
    if (log->file == NULL)
        return false;
    if (!log->json)
        csv_header(log->file, about);
    return true;
}

void log_step(log_file *log, const step_record *r)
{
    if (log->events != NULL)
        json_step(log->events, log->about, r);
    if (log->file != NULL)
        (log->json ? json_step : csv_step)(log->file, log->about, r);
}

bool log_close(log_file *log, const run_summary *s)
{
    if (log->events != NULL)
        json_summary(log->events, log->about, s);
    if (log->file == NULL)
        return true;
    if (log->json)
        json_summary(log->file, log->about, s);
    const bool good = ferror(log->file) == 0;
    return fclose(log->file) == 0 && good;
}
