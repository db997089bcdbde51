using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using Microsoft.AspNetCore.Server.Kestrel.Https;

var builder = WebApplication.CreateBuilder(args); // its Configuration reads flags and environment
var certFile = builder.Configuration["tls-cert-file"] ?? builder.Configuration["TLS_CERT_FILE"]!;
var keyFile = builder.Configuration["tls-private-key-file"] ?? builder.Configuration["TLS_PRIVATE_KEY_FILE"]!;

string loaded = "";
SslStreamCertificateContext? current = null;
void Load()
{
    string cert = File.ReadAllText(certFile), key = File.ReadAllText(keyFile);
    if (cert == loaded) return;
    var leaf = X509Certificate2.CreateFromPem(cert, key); // throws if they do not match
    var chain = new X509Certificate2Collection();
    chain.ImportFromPem(cert);
    current = SslStreamCertificateContext.Create(leaf, chain, offline: true);
    loaded = cert;
}

Load();
builder.WebHost.ConfigureKestrel(kestrel => kestrel.ListenAnyIP(8443, listen => listen.UseHttps(new TlsHandshakeCallbackOptions
{
    OnConnection = _ => ValueTask.FromResult(new SslServerAuthenticationOptions { ServerCertificateContext = current }),
})));
var app = builder.Build();
app.MapGet("/", () => "served\n");
using var timer = new Timer(_ =>
{
    try { Load(); }
    catch (Exception e) { app.Logger.LogWarning("keeping the old certificate: {Message}", e.Message); }
}, null, TimeSpan.FromSeconds(2), TimeSpan.FromSeconds(2));
app.Run();
